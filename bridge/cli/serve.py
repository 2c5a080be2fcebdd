"""The verb `serve`: the archive in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import IndexOption
from catalog.cli.common import ArchiveOption
from wshard.cli.common import named_path, printable, reported

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridge.web.server import ServeOptions

_EXTRA = ("starlette", "uvicorn", "jinja2", "anyio")


@reported()
def serve(
    place: Annotated[str | None, typer.Argument(help="Archive, instead of --archive.", metavar="[ARCHIVE]")] = None,
    archive: ArchiveOption = None,
    index: IndexOption = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; anything but this machine requires --auth.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free port.")] = 8642,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Reject all changes.")] = False,
    auth: Annotated[
        Path | None,
        typer.Option(help="File of accounts, one line NAME ROLE SHA256 each.", parser=named_path, metavar="FILE"),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Additional host name of the server; may be repeated.", metavar="HOST"),
    ] = None,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="Print a new token and its SHA-256 for the --auth file, and exit.")
    ] = False,
) -> None:
    """Serve the archive to your browser until Ctrl-C."""
    from catalog.location import archive_named

    if new_token:
        _print_token()
        return
    if place is not None and archive is not None:
        raise typer.BadParameter("expected ARCHIVE or --archive, not both")
    run_server(
        archive_named(place or archive),
        lambda make: make(
            host=host,
            port=port,
            read_only=read_only,
            auth=auth,
            hosts=tuple(name or ()),
            opened=not no_open,
            index=index,
        ),
    )


def run_server(place: Path | str, choose: Callable[[type[ServeOptions]], ServeOptions]) -> None:
    """Serve an archive until Ctrl-C; choose: makes the options. Raises MissingExtraError without the extra."""
    from wshard.core.messages import how_to_install
    from wshard.errors import MissingExtraError, RequestError

    try:
        from bridge.web import server
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise MissingExtraError(f"the browser app needs {error.name}: {how_to_install('web')}") from error
    try:
        server.serve(place, choose(server.ServeOptions), report=_report)
    except RequestError as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo("stopped")


def _report(link: str) -> None:
    typer.echo(f"{printable(link)}\nCtrl-C stops it")


def _print_token() -> None:
    from bridge.web.accounts import hash_token, new_token

    token = new_token()
    typer.echo(f"token:  {token}\nsha256: {hash_token(token)}")
