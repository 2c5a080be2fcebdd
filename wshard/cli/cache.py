"""The command `cache`, about the blocks of objects that are kept on disk."""

from __future__ import annotations

from typing import Annotated

import typer

from wshard.cli.common import JsonOption, option_read, print_json, printable, reported
from wshard.core.messages import plural


@reported()
def cache(
    size: Annotated[bool, typer.Option("--size", help="Show the size of the cache, the default.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all blocks, also while others read them.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show or clear the cache of what was read from object stores; WSHARD_CACHE_SIZE limits it, such as 20GB or 0."""
    from wshard.core.files.disk_cache import clear_cache, limit_of_cache, objects_folder, size_of_cache

    if size and clear:
        raise typer.BadParameter("expected --size or --clear, not both")
    with option_read():
        limit = limit_of_cache()
    found = clear_cache() if clear else size_of_cache()
    folder = str(objects_folder())
    if as_json:
        print_json({"folder": folder, "removed": clear, "limit": limit, **found._asdict()})
        return
    what = f"{plural(found.blocks, 'block')}, {found.size / 1e6:,.1f} MB"
    limited = "" if clear else f" of at most {limit / 1e6:,.1f} MB"
    typer.echo(f"{'removed ' if clear else ''}{what}{limited} in {printable(folder)}")
