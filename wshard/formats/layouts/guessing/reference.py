"""Guess how a file is read that is of no known format: one owner for ingests, and for all that reads without one."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final

from wshard.core.files.schemes import place_of
from wshard.core.messages import plural
from wshard.errors import FormatError, GuessWarning, LayoutError, WShardError
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing.arrays import why_unclear
from wshard.formats.layouts.guessing.describe import state_layout
from wshard.formats.layouts.guessing.guess import guess_layout
from wshard.formats.layouts.guessing.table import refer_to_table
from wshard.formats.layouts.layout import SUFFIXES
from wshard.formats.layouts.named import describe_layout, guess_reference
from wshard.formats.table import how_to_describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wshard.core.files.schemes import Location
    from wshard.formats.layouts.guessing.layout_guess import LayoutGuess

NO_COLUMN: Final = "it has no column of episodes or times"
"""Why a table that no user named is not read."""

_GUESSED: Final = (*SUFFIXES["table"], *SUFFIXES["npz"], *SUFFIXES["hdf5"])
_MOST_REASONS: Final = 8
_ENDS: Final = {b"PK\x03\x04": (b"PK\x05\x06", 65557), b"PAR1": (b"PAR1", 4), b"ARROW1": (b"ARROW1", 6)}
"""What is within so many bytes of the end of a whole file that begins so: .npz, Parquet, Arrow."""

_TEXTS: Final = (".csv", ".tsv", *SUFFIXES["json"])


@dataclass(frozen=True)
class ReadingGuess:
    """How a file is read by a guess: the name of a format, a reference of layouts.named; or "", and why it is none."""

    place: str
    reference: str
    why: str = ""

    def expect(self) -> str:
        """Return the name of the format; raises LayoutError, which says what is open, for none."""
        if self.why:
            raise LayoutError(
                f"{self.place}: expected a file of a known format or layout, or one whose arrays say what they are; "
                f"{self.why}: {how_to_describe(self.place)}"
            )
        return self.reference


def can_guess(name: str) -> bool:
    """Return True for a file whose name says that a guess is made of its content: a table, or arrays by name."""
    return name.lower().endswith(_GUESSED)


def guess_reading(location: Location, *, is_given: bool) -> ReadingGuess:
    """Return how a file of no known format is read; is_given: as for why_unsure.

    Raises what opening the file raises.
    """
    guess = guess_layout(location)
    if why := why_unsure(guess, is_given=is_given):
        return ReadingGuess(str(location), "", why)
    return ReadingGuess(str(location), refer_to_table(guess) or guess_reference(state_layout(guess)))


def is_cut(location: Location) -> bool:
    """Return whether a file begins as one of arrays or of a table does, and does not end so, or has nothing of it.

    A text table without a row may be whole. Raises OSError.
    """
    place = place_of(location)
    with place.open() as file:
        head = file.read(max(map(len, _ENDS)))
        if not head:
            return place.suffix.lower() not in _TEXTS
        for begins, (ends, within) in _ENDS.items():
            if head.startswith(begins):
                file.seek(max(len(begins), file.seek(0, os.SEEK_END) - within))
                return ends not in file.read()
    return False


def guess_readings(paths: Iterable[str], reasons: dict[str, str]) -> dict[str, str]:
    """Return how files of no known format, which no user named, are read; "" for those that were cut.

    reasons: takes why others are not read, by path. Warnings say which are read, and which are not.
    """
    found, unread, cut = dict[str, str](), dict[str, str](), dict[str, str]()
    for path in filter(can_guess, paths):
        try:
            guess = guess_reading(path, is_given=False)
        except (OSError, WShardError) as error:
            if isinstance(error, OSError) or (isinstance(error, FormatError) and is_cut(path)):
                cut[path] = ""  # reading it reports what it is
            else:
                unread[path] = str(error).removeprefix(f"{path}: ")
            continue
        (unread if guess.why else found)[path] = guess.why or guess.reference
    warn_of_guesses(found)
    warn_of_unread(unread)
    reasons.update(unread)
    return found | cut


def why_unsure(guess: LayoutGuess, *, is_given: bool) -> str:
    """Return why a guess is taken by a description only: what is open, or what no name says; "" if it is taken.

    is_given: the user named the file; other tables, which may be anything, need a column of episodes or times.
    """
    if choices := guess.open_choices():
        return ". ".join(choices)
    if guess.layout.container != "table":
        return why_unclear(guess) if can_guess(guess.layout.files or guess.place) else "no guess is made of such files"
    has_time = any(one.role == rules.TIME for one in guess.arrays)
    return "" if is_given or has_time or guess.layout.episodes.by != rules.FILE else NO_COLUMN


def warn_of_guesses(found: Mapping[str, str]) -> None:
    """Say by a GuessWarning for each way of reading which files are read so; found: names of formats by path."""
    paths: dict[str, list[str]] = {}
    for path, reference in found.items():
        paths.setdefault(reference, []).append(path)
    for reference, (first, *others) in paths.items():
        named = f"{first} and {plural(len(others), 'other file')}" if others else first
        warnings.warn(
            f"{named}: read by a guess: {describe_layout(reference)}; `wshard layout guess {quote(first)}` writes it "
            f"down for --layout",
            GuessWarning,
            stacklevel=3,
        )


def warn_of_unread(unread: Mapping[str, str]) -> None:
    """Say by a GuessWarning for each reason which files are not read; unread: the reasons by path.

    Of many reasons, as they name arrays, the first; the others are counted.
    """
    paths: dict[str, list[str]] = {}
    for path, why in unread.items():
        paths.setdefault(why, []).append(path)
    for why, (first, *others) in [*paths.items()][:_MOST_REASONS]:
        more = f" and {plural(len(others), 'other file')}" if others else ""
        warnings.warn(f"not read: {first}{more}: {why}: {how_to_describe(first)}", GuessWarning, stacklevel=3)
    if left := sum(map(len, [*paths.values()][_MOST_REASONS:])):
        warnings.warn(f"not read: {plural(left, 'file')} more, for other reasons", GuessWarning, stacklevel=3)
