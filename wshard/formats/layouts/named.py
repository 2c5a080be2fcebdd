"""Layouts by name: those of this package, and files of the user's."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from wshard.core.files.local import LocalPlace
from wshard.core.files.schemes import place_of
from wshard.errors import LayoutError
from wshard.formats.layouts.layout import SKIP
from wshard.formats.layouts.options import TableOptions, adapt, describe_options, format_options, parse_options
from wshard.formats.layouts.parse import parse_layout, read_layout
from wshard.formats.table import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.formats.layouts.layout import EpisodeLayout

_SUFFIX: Final = ".toml"
_GUESSED: Final = "guess"
_UNQUOTED: Final = "/._-+:@, "


@cache
def _shipped() -> Mapping[str, tuple[EpisodeLayout, str]]:
    folder = files("wshard.formats.layouts") / "shipped"
    texts = {entry.name: entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(_SUFFIX)}
    layouts = [(parse_layout(texts[name], name), texts[name]) for name in sorted(texts)]
    return {layout.name: (layout, text) for layout, text in layouts}


@cache
def _guessed(description: str) -> EpisodeLayout:
    return parse_layout(unquote(description), _GUESSED)


@cache
def shipped_layouts() -> Mapping[str, EpisodeLayout]:
    """Return the layouts of this package by name."""
    return {name: layout for name, (layout, _) in _shipped().items()}


def shipped_text(name: str) -> str:
    """Return the description of a layout of this package; raises LayoutError."""
    if name not in _shipped():
        raise LayoutError(f"layout: expected one of {', '.join(_shipped())}; found {name!r}")
    return _shipped()[name][1]


def table_reference(options: TableOptions) -> str:
    """Return the name of the format of a table with these columns, of which sparse ones make lanes of their own."""
    return f"{LAYOUT}table?{format_options(replace(options, sparse='apart'))}"


def guess_reference(description: str) -> str:
    """Return the name of the format of arrays that a guess describes: the reference holds the description."""
    return f"{LAYOUT}{_GUESSED}?{quote(description, _UNQUOTED)}"


def is_guess(reference: str) -> bool:
    """Return True for the name of a format that was guessed."""
    name, _, options = reference.partition("?")
    return name == f"{LAYOUT}{_GUESSED}" or (bool(options) and bool(parse_options(options).guessed))


def layout_reference(given: str | os.PathLike[str]) -> str:
    """Return the name of the format of a layout, given by its name or the path of its description.

    Raises LayoutError where it is neither.
    """
    text = os.fspath(given).removeprefix(LAYOUT)
    if text in shipped_layouts():
        return f"{LAYOUT}{text}"
    place = place_of(text)
    found = place.resolve() if isinstance(place, LocalPlace) else place
    reference = f"{LAYOUT}{quote(found.uri, _UNQUOTED)}"
    find_layout(reference)
    return reference


def find_layout(reference: str) -> EpisodeLayout:
    """Return the layout of a reference that layout_reference made; raises LayoutError."""
    name, question, options = reference.removeprefix(LAYOUT).partition("?")
    if question and name == _GUESSED:
        return _guessed(options)
    text = unquote(name)
    found = shipped_layouts().get(text)
    if found is not None:
        return adapt(found, parse_options(options)) if question else found
    place = place_of(text)
    if not place.is_file():
        if place.suffix == _SUFFIX:
            raise LayoutError(f"{text}: expected a description of a layout, found none: restore it, or ingest again")
        names = ", ".join(shipped_layouts())
        raise LayoutError(f"layout: expected the path of a description, or one of {names}; found {text!r}")
    return read_layout(place)


def describe_layout(name: str) -> str:
    """Return the name of a format as messages show it: of a layout, what it takes for what."""
    if not name.startswith(LAYOUT):
        return name
    text, question, options = name.removeprefix(LAYOUT).partition("?")
    if question and text == _GUESSED:
        layout = _guessed(options)
        taken = ", ".join(f"{rule.role}={rule.pattern}" for rule in layout.arrays if rule.role != SKIP)
        return f"{layout.container} as {taken} (by guess)"
    return f"{unquote(text)} ({describe_options(parse_options(options))})" if question else f"layout {unquote(text)!r}"
