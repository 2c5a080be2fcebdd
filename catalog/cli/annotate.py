"""The commands that annotate episodes: tag, note, review."""

from __future__ import annotations

import getpass
import os
from dataclasses import asdict
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.cli.common import ArchiveOption, WhereOption, episode_ids, open_catalog, print_table
from wshard.cli.common import JsonOption, print_items, printable, reported
from wshard.core.messages import plural

if TYPE_CHECKING:
    from catalog.catalog import Catalog

EpisodesArgument = Annotated[list[str] | None, typer.Argument(help="Episode ids, uids or files.", show_default=False)]
WhoOption = Annotated[str | None, typer.Option("--who", help="Your name (default: the name of your account).")]

_STATES = ("accepted", "rejected", "unsure")  # the app has keys for these
_MISTYPED = 0.8  # similarity to one of them


@reported()
def tag(
    name: Annotated[str, typer.Argument(help="Tag.")],
    episodes: EpisodesArgument = None,
    where: WhereOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tag.")] = False,
    archive: ArchiveOption = None,
) -> None:
    """Add a tag to episodes, or remove it."""
    with open_catalog(archive) as catalog:
        ids = episode_ids(catalog, episodes or [], where)
        count = catalog.annotations.untag(ids, name) if remove else catalog.annotations.tag(ids, name)
    typer.echo(f"tag {printable(name)} {'removed from' if remove else 'added to'} {count} of {len(ids)} episodes")


@reported()
def note(
    text: Annotated[str | None, typer.Argument(help="Text of the note.", show_default=False)] = None,
    episodes: EpisodesArgument = None,
    where: WhereOption = None,
    remove: Annotated[int | None, typer.Option("--remove", help="Remove the note with this id.")] = None,
    who: WhoOption = None,
    archive: ArchiveOption = None,
) -> None:
    """Add a note to episodes; full-text filters search it. `wshard show` lists notes with their ids."""
    with open_catalog(archive) as catalog:
        if remove is not None:
            if text is not None or episodes or where is not None:
                raise typer.BadParameter("expected --remove ID without text, episodes or --where")
            catalog.annotations.remove_note(remove)
            typer.echo(f"note {remove} removed")
            return
        if text is None:
            raise typer.BadParameter("expected the text of the note")
        notes = catalog.annotations.add_note(episode_ids(catalog, episodes or [], where), text, who=account(who))
    typer.echo(f"note added to {plural(len(notes), 'episode')}")


def _check_state(catalog: Catalog, state: str) -> None:
    """Refuse a state that is probably a mistyped one; others of people's own are fine, and so are those in use."""
    from catalog.filters.where import Compare
    from wshard.errors import FilterError

    close = get_close_matches(state.casefold(), _STATES, n=1, cutoff=_MISTYPED)
    if state in _STATES or not close or catalog.query.ids(Compare("review", "eq", state)):
        return
    raise FilterError(f"expected a review state, found {printable(state)!r}: did you mean {close[0]}?")


@reported()
def review(
    state: Annotated[
        str | None, typer.Argument(help=f"{', '.join(_STATES)}, or a state of your own.", show_default=False)
    ] = None,
    episodes: EpisodesArgument = None,
    where: WhereOption = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last review; give episodes only.")] = False,
    audit: Annotated[bool, typer.Option("--audit", help="Show the review history; give episodes only.")] = False,
    who: WhoOption = None,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set the review state of episodes, undo the last review, or show the history."""
    if undo and audit:
        raise typer.BadParameter("expected --undo or --audit, not both")
    names_ = [*([state] if (undo or audit) and state is not None else []), *(episodes or [])]
    with open_catalog(archive) as catalog:
        ids = episode_ids(catalog, names_, where)
        if audit:
            entries = catalog.annotations.audit(ids)
        elif undo:
            entries = catalog.annotations.undo_review(ids, who=account(who))
        elif state is None:
            raise typer.BadParameter("expected a review state")
        else:
            _check_state(catalog, state)
            entries = catalog.annotations.review(ids, state, who=account(who))
            if entries and state not in _STATES:
                typer.echo(
                    f"{printable(state)}: a state of your own; the usual ones are {', '.join(_STATES)}", err=True
                )
        named = [*catalog.episodes.rows({entry.episode_id for entry in entries}).values()]
        names = {row.id: name for row, name in zip(named, catalog.query.short_names(named), strict=True)}
    if as_json:
        print_items(map(asdict, entries), episodes=len(ids))
        return
    if audit:
        rows = [
            (names[e.episode_id], e.state or "(none)", e.who, e.at, "" if e.undoes is None else "undone")
            for e in entries
        ]
        print_table(("episode", "state", "who", "when", ""), rows)
    typer.echo(plural(len(entries), "review") if audit else f"{len(entries)} of {len(ids)} episodes changed")


def account(who: str | None = None) -> str:
    """Return the name of the user: `who`, or the name of the account."""
    if who is not None:
        return who
    try:
        return os.fsencode(getpass.getuser()).decode(errors="replace")
    except (KeyError, OSError):  # an account without a name
        return ""
