"""Guess the layout of a file or folder: the description, what each array was taken for, and what is open."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.episode.natural_order import sort_naturally
from wshard.core.files.local import LocalPlace
from wshard.core.files.schemes import place_of
from wshard.core.messages import plural
from wshard.errors import FormatError
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.cameras import VIDEO
from wshard.formats.layouts.containers import open_container
from wshard.formats.layouts.episodes import EpisodeFinder
from wshard.formats.layouts.groups import RowGroups
from wshard.formats.layouts.guessing.attributes import guess_attributes, guess_rate
from wshard.formats.layouts.guessing.batch import batch_axes, find_in_batch
from wshard.formats.layouts.guessing.flat import find_in_rows
from wshard.formats.layouts.guessing.groups import GroupFamily, find_family, find_in_groups, find_lists
from wshard.formats.layouts.guessing.layout_guess import LayoutGuess
from wshard.formats.layouts.guessing.readings import EpisodeReading
from wshard.formats.layouts.guessing.roles import ArrayGuess, guess_roles
from wshard.formats.layouts.guessing.survey import OTHER, TEXT, container_of, labels_of, read_facts
from wshard.formats.layouts.guessing.union import describe_roles, unite
from wshard.formats.layouts.layout import ARRAY_SUFFIXES, EpisodeLayout, EpisodeRule
from wshard.formats.layouts.plan import stands_apart
from wshard.formats.look import look_at
from wshard.formats.npz import ZIP_MAGIC
from wshard.formats.table import how_to_describe, kind_without_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.types import Array
    from wshard.formats.layouts.columns import ArrayFile
    from wshard.formats.layouts.guessing.readings import EpisodeGuess
    from wshard.formats.layouts.guessing.survey import ArrayFacts

_LANES: Final = {"observation/state": rules.OBSERVATION, "action/actions": rules.ACTION}
"""The lanes that the columns of a table make, and their roles."""

_CAMERAS: Final = {"observation/front": f"{{file}}{VIDEO}"}
"""Of a video beside a file of its name."""

_MOST_LISTED: Final = 256  # files of a folder without arrays, to say what they are
_MOST_FILES: Final = 8  # of a folder, from the first to the last
_FEW_GROUPS: Final = 256  # so that all arrays of the file can be listed


def guess_layout(location: Location) -> LayoutGuess:
    """Return the layout of a file, or of a folder of files of one layout, as far as it can be guessed.

    Reads names, shapes, columns and the first rows of others, in up to 8 files of a folder. Raises FormatError for
    what is no container of arrays, MissingExtraError, FileNotFoundError.
    """
    place = place_of(location)
    place.status()
    files, pattern = _examples(place)
    found, failed = list[LayoutGuess](), list[FormatError]()
    for file in files:
        try:
            found.append(_guess_file(file))
        except FormatError as error:
            failed.append(error)
    if not found:
        raise failed[0]
    guess = found[0] if len(found) == 1 else unite(found)
    is_file = files == [place]
    name = guess.layout.name if is_file else place.resolve().name if isinstance(place, LocalPlace) else place.name
    return replace(guess, place=str(place), layout=replace(guess.layout, files=pattern, name=name))


def _guess_file(file: Place) -> LayoutGuess:
    kind = container_of(file)
    if not kind:
        raise FormatError(_why_none(file))
    container = open_container(kind, file)
    try:
        guess = _guess(container, kind, file)
    finally:
        container.close()
    has_video = guess.layout.episodes.by == rules.FILE and (file.parent / f"{file.stem}{VIDEO}").is_file()
    return replace(guess, layout=replace(guess.layout, cameras=_CAMERAS)) if has_video else guess


def _why_none(place: Place) -> str:
    files = islice(place.walk(), _MOST_LISTED) if place.is_dir() else [place]
    if other := next(filter(kind_without_arrays, files), None):
        return f"{place}: expected arrays, found a {kind_without_arrays(other)}: {how_to_describe(other)}"
    if not place.is_dir():
        look = look_at(place)
        if not look.head:
            return f"{place}: expected arrays, found an empty file"
        kind = ".npz" if look.head.startswith(ZIP_MAGIC) else place.suffix.lower()
        if kind in ARRAY_SUFFIXES:
            return f"{place}: expected arrays, found a damaged or cut {kind} file"
    suffixes = ", ".join(ARRAY_SUFFIXES)
    return f"{place}: expected arrays: a file {suffixes}, or a folder of them; found neither"


def _examples(place: Place) -> tuple[list[Place], str]:
    """Return files of the location, some of a folder, and the pattern of its files."""
    if not place.is_dir() or container_of(place):
        return [place], ""
    files = [file for file in place.walk() if file.suffix.lower() in ARRAY_SUFFIXES]
    suffixes = Counter(file.suffix for file in files)
    if not suffixes:
        return [place], ""
    suffix = suffixes.most_common(1)[0][0]
    by_name = {file.relative_to(place): file for file in files if file.suffix == suffix}
    depths = {name.count("/") for name in by_name}
    if len(depths) > 1:
        raise FormatError(f"{place}: expected files {suffix} in folders of one depth; name one of them")
    ordered = [by_name[name] for name in sort_naturally(by_name)]
    chosen = np.unique(np.linspace(0, len(ordered) - 1, _MOST_FILES).astype(int))
    return [ordered[number] for number in chosen], "/".join([*["*"] * depths.pop(), f"*{suffix}"])


def _guess(container: ArrayFile, kind: str, file: Place) -> LayoutGuess:
    family = find_family(container)
    stated, unread = {**container.attributes()}, list[ArrayGuess]()
    arrays = family.arrays if family is not None else read_facts(container)
    lists = find_lists(container, arrays) if family is None and kind in ("table", "json") else None
    if family is not None:
        episodes = find_in_groups(family)
        stated |= container.attributes(family.groups[0])
        unread = _outside(container, family)
    elif lists is not None:
        (family, container), arrays = lists, lists[0].arrays
        episodes = find_in_groups(family)
    else:
        axes = batch_axes(arrays)
        episodes = find_in_batch(arrays, axes) if axes else find_in_rows(arrays, _labels(arrays, container))
        episodes = _with_doubts(episodes, kind, arrays)
    guesses = guess_roles(arrays, episodes)
    roles = {one.role for one in guesses}
    guesses += [one for one in guess_attributes(stated) if one.role not in roles]
    rate = guess_rate(arrays, stated) if rules.TIME not in roles else None
    if lists is not None:
        why = f"{plural(len(lists[0].groups), 'episode')}: each row has lists of its own length"
        episodes = replace(episodes, readings=(EpisodeReading(EpisodeRule(rules.ROW), len(lists[0].groups), why),))
    rule = episodes.readings[0].rule
    layout = EpisodeLayout(file.stem, kind, episodes=rule, arrays=describe_roles(guesses), rate=rate)
    if kind in ("table", "json") and rule.by not in (rules.GROUP, rules.ROW):
        lanes = _lanes_of_columns(arrays, guesses)
        apart = {path for path, lane in lanes.items() if stands_apart(container, path, lane)}
        guesses = [replace(one, is_apart=one.path in apart) for one in guesses]
        stack = {lane: tuple(path for path in lanes if lanes[path] == lane and path not in apart) for lane in _LANES}
        layout = replace(layout, stack={lane: paths for lane, paths in stack.items() if paths})
    return LayoutGuess(str(file), layout, _checked(episodes, layout, container, file), tuple(guesses), tuple(unread))


def _with_doubts(episodes: EpisodeGuess, kind: str, arrays: Sequence[ArrayFacts]) -> EpisodeGuess:
    """Return a guess with doubts about a table without names of columns, and about arrays of which none is read."""
    doubts = list[str]()
    if kind == "table" and arrays and all(_is_number(one.path) for one in arrays):
        doubts.append(f"the first row has numbers ({arrays[0].path}, ...): expected names of columns")
    if not any(one.rows and one.kind != OTHER for one in arrays):
        doubts.append("expected arrays with a row per timestep, found none")
    readings = [
        one  # an axis of cells cannot be chosen
        for one in episodes.readings
        if kind not in ("table", "json") or one.rule.arrays or not one.rule.axis
    ]
    return replace(episodes, readings=tuple(readings) or episodes.readings, doubts=(*episodes.doubts, *doubts))


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _outside(container: ArrayFile, family: GroupFamily) -> list[ArrayGuess]:
    """Return the arrays outside of the groups of episodes, if all can be listed."""
    if len(family.groups) > _FEW_GROUPS:
        return []
    paths = [path for path in container.paths() if not fnmatchcase(path, f"{family.pattern}/*")]
    return [
        ArrayGuess(one.path, one.shape, one.dtype, rules.SKIP, "outside of the groups of episodes")
        for one in read_facts(container, paths=paths)
    ]


def _labels(arrays: Sequence[ArrayFacts], container: ArrayFile) -> Mapping[str, Array]:
    found = ((one.path, labels_of(one, container)) for one in arrays if one.is_column and one.rows > 1)
    return {path: values for path, values in found if values is not None}


def _lanes_of_columns(arrays: Sequence[ArrayFacts], guesses: Sequence[ArrayGuess]) -> dict[str, str]:
    """Return the lane that each column of numbers is for: that of actions, or of all others that are observations."""
    lanes = {role: lane for lane, role in _LANES.items()}
    numeric = {one.path for one in arrays if len(one.shape) == 1 and one.kind not in (TEXT, "images", "other")}
    fitting = [one for one in guesses if one.path in numeric and not one.extra]
    return {one.path: lanes[one.role] for one in fitting if one.role in lanes}


def _checked(episodes: EpisodeGuess, layout: EpisodeLayout, container: ArrayFile, file: Place) -> EpisodeGuess:
    """Return the guess, with a doubt if the rule does not give the episodes that were guessed."""
    opened: Any = container
    if layout.has_lists and not isinstance(container, RowGroups):
        opened = RowGroups(opened)
    try:
        count = len(EpisodeFinder(layout, opened, file).find())
    except FormatError as error:
        return replace(episodes, doubts=(*episodes.doubts, str(error)))
    if count != episodes.readings[0].count:
        doubt = f"expected {episodes.readings[0].count} episodes, found {count}"
        return replace(episodes, doubts=(*episodes.doubts, doubt))
    return episodes
