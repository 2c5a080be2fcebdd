"""Write a guess as the description that `--layout` takes, with what speaks for it in comments."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from wshard.core.episode.lanes import MAX_GAPS
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing.clock import OPEN
from wshard.formats.layouts.layout import VERSION, EpisodeRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.formats.layouts.guessing.layout_guess import LayoutGuess
    from wshard.formats.layouts.guessing.roles import ArrayGuess
    from wshard.formats.layouts.layout import EpisodeLayout


def describe_guess(guess: LayoutGuess) -> str:
    """Return a description in TOML that parse_layout reads; one with an open choice is refused until it is edited."""
    return "\n".join(_lines(guess)) + "\n"


def state_layout(guess: LayoutGuess) -> str:
    """Return a certain guess as a description of no name and without comments: files of one kind have the same."""
    layout = replace(guess.layout, name="guess", files="", cameras={})  # a video that does not fit is no reason to fail
    lines = _lines(replace(guess, layout=layout), noted=False)
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def _lines(guess: LayoutGuess, *, noted: bool = True) -> Iterator[str]:
    layout, choices = guess.layout, guess.open_choices()
    yield _comment(f"What `wshard layout guess` made of {guess.place}: edit what is wrong, and give it with --layout.")
    for choice in choices:
        yield _comment(f"OPEN: {choice}")
    if choices:
        yield '# Edit each "?" below: until then, this description is refused.'
    yield ""
    yield f"layout = {VERSION}"
    yield f"name = {_quoted(layout.name)}"
    yield f"container = {_quoted(layout.container)}"
    if layout.files:
        yield f"files = {_quoted(layout.files)}"
    if layout.rate:
        yield f"rate = {_quoted(str(layout.rate))}"
    yield ""
    yield "[episodes]"
    yield from _episodes(guess)
    yield ""
    yield "[arrays]"
    stacked = {path for paths in layout.stack.values() for path in paths}
    for one in guess.arrays:
        yield _array(one) + (f"  {_note(one, is_stacked=one.path in stacked)}" if noted else "")
    for one in guess.unread:
        yield _comment(f"{_quoted(one.path)}: {one.dtype} {list(one.shape)}: not read: {one.why}")
    yield from _stacks_and_cameras(layout)


def _stacks_and_cameras(layout: EpisodeLayout) -> Iterator[str]:
    """Yield the lanes that are made of columns or of videos."""
    if layout.stack:
        yield ""
        yield "[stack]"
        for lane, paths in layout.stack.items():
            yield f"{_quoted(lane)} = [{', '.join(map(_quoted, paths))}]"
    if layout.cameras:
        yield ""
        yield "[cameras]"
        for lane, path in layout.cameras.items():
            yield f"{_quoted(lane)} = {_quoted(path)}  {_comment('the video beside: a frame for each timestep')}"


def _episodes(guess: LayoutGuess) -> Iterator[str]:
    readings = guess.episodes.readings
    if guess.episodes.is_certain:
        yield _comment(readings[0].why)
        yield from _rule(readings[0].rule)
        return
    yield _comment('Take the lines of one reading instead of the line with "?":')
    for one in readings:
        yield _comment(f"- {one.why}")
        for line in _rule(one.rule):
            yield f"#   {line}"
    yield f'by = "{OPEN}"'


def _rule(rule: EpisodeRule) -> Iterator[str]:
    yield f"by = {_quoted(rule.by)}"
    if rule.group:
        yield f"group = {_quoted(rule.group)}"
    if len(rule.arrays) == 1:
        yield f"array = {_quoted(rule.arrays[0])}"
    elif rule.arrays:
        yield f"arrays = [{', '.join(map(_quoted, rule.arrays))}]"
    if rule.by == rules.ROW:
        yield f"axis = {rule.axis}"


def _array(one: ArrayGuess) -> str:
    value = _quoted(one.role)
    keys = ([f"unit = {_quoted(one.unit)}"] if one.unit else []) + ([f"extra = {one.extra}"] if one.extra else [])
    if keys:
        value = f"{{ {', '.join([f'is = {value}', *keys])} }}"
    return f"{_quoted(one.path)} = {value}"


def _note(one: ArrayGuess, *, is_stacked: bool) -> str:
    units = " (one of s, ms, us, ns)" if one.is_open else ""
    apart = f"; more than {MAX_GAPS:.0%} of its rows lack a value: a lane of its own" if one.is_apart else ""
    stacked = "; a column of a lane of [stack]" if is_stacked else apart
    kind = f"{one.dtype} {list(one.shape)}: " if one.dtype else ""
    return _comment(f"{kind}{one.why}{units}{stacked}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _comment(text: str) -> str:
    return f"# {''.join(character if character.isprintable() else ascii(character)[1:-1] for character in text)}"
