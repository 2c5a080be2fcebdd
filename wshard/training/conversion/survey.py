"""Look through episodes before they are converted: what would be lost, and which lanes only some of them have."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wshard.core.messages import plural
from wshard.errors import EntryNotFoundError, FormatError
from wshard.formats.lane_map import find_block

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.protocol import EpisodeAddress, EpisodeSpan

_SHOWN = 5
_ACTION = "action/action"  # the name that most formats read and write
_PLAIN = re.compile(r"[\w/+-]+")
_SETTING = re.compile(r"[\w./+-]+:[\w.-]+")  # a comparison of a filter without quotes


@dataclass
class _RateGroup:
    """Episodes of one rate, None if unknown. lanes: those that all have and whose rate is that of the episode."""

    count: int
    example: EpisodeAddress
    lanes: dict[str, None]


@dataclass
class _SettingsGroup:
    """Episodes of equal settings."""

    count: int
    example: EpisodeAddress
    settings: Mapping[str, Any]


@dataclass
class _LanesGroup:
    """Episodes of the same lanes."""

    count: int
    example: EpisodeAddress


@dataclass
class Survey:
    """What the episodes have that could be described. losses: what the target cannot store of each.

    rates, settings: those of which the target stores one for all; a rate is None if unknown. names: of all their lanes,
    also of those to leave out. lanes: the episodes by the lanes that all must have; shapes: of a step of these lanes.
    """

    losses: dict[EpisodeSpan, tuple[str, ...]] = field(default_factory=dict)
    rates: dict[float | None, _RateGroup] = field(default_factory=dict)
    settings: dict[str, _SettingsGroup] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    lanes: dict[tuple[str, ...], _LanesGroup] = field(default_factory=dict)
    shapes: dict[str, set[tuple[int, ...]]] = field(default_factory=dict)

    def count_losses(self, spans: Iterable[EpisodeSpan]) -> Counter[str]:
        """Return what the target cannot store of these episodes, and of how many of them."""
        return Counter(loss for span in spans for loss in self.losses.get(span, ()))

    def add_rate(self, rate: float | None, info: EpisodeInfo, address: EpisodeAddress) -> None:
        """Count another episode by the rate that all must have."""
        lanes = {name: None for name, lane in info.lanes.items() if (lane.sampling_rate_hz or rate) == rate}
        if info.timebase.assumed and rate is not None:
            lanes = {}  # an archive does not know the rate
        group = self.rates.setdefault(rate, _RateGroup(0, address, lanes))
        group.count += 1
        group.lanes = {name: None for name in group.lanes if name in lanes}

    def check_rates(self, where: str) -> None:
        """Raise FormatError if the episodes differ in the rate that all must have; where: place and format."""
        if len(self.rates) < 2:
            return
        groups = sorted(self.rates.items(), key=lambda item: (item[0] is None, -item[1].count))
        parts = [(f"{rate:g} Hz" if rate else "no rate", group, self._filter_of_rate(rate)) for rate, group in groups]
        found = [
            f"{what} in {group.count} ({f'--where {shlex.quote(one)}' if one else f'as {group.example}'})"
            for what, group, one in parts[:_SHOWN]
        ]
        found += [f"{plural(len(parts) - _SHOWN, 'other rate')}"] if len(parts) > _SHOWN else []
        measured = any(rate and rate != round(rate) for rate in self.rates)
        advice = "; or, if rates are of times, state one in the layout, as rate = HZ" if measured else ""
        raise FormatError(
            f"{where}: expected one rate in all {sum(group.count for group in self.rates.values())} episodes, found "
            f"{', '.join(found)}; nothing was written: write each rate to a place of its own{advice}"
        )

    def add_settings(self, settings: Mapping[str, Any], address: EpisodeAddress) -> None:
        """Count another episode by the settings that all must have."""
        text = json.dumps(settings, sort_keys=True, default=str)
        self.settings.setdefault(text, _SettingsGroup(0, address, settings)).count += 1

    def check_settings(self, where: str) -> None:
        """Raise FormatError if the episodes differ in the settings that all must have; where: place and format."""
        groups = sorted(self.settings.values(), key=lambda group: -group.count)
        names = [*dict.fromkeys(name for group in groups for name in group.settings)]
        differ = {name: {json.dumps(group.settings.get(name), default=str) for group in groups} for name in names}
        name = max(names, key=lambda one: len(differ[one]), default="")
        if len(groups) < 2:
            return
        found = []
        for group in groups[:_SHOWN]:
            value = group.settings.get(name)
            which = _filter_of(name, value) if len(differ[name]) == len(groups) else ""
            found.append(f"{value!r} in {group.count} ({f'--where {which}' if which else f'as {group.example}'})")
        found += [f"{plural(len(groups) - _SHOWN, 'other')}"] if len(groups) > _SHOWN else []
        raise FormatError(
            f"{where}: expected one {name} in all {sum(group.count for group in groups)} episodes, found "
            f"{', '.join(found)}; nothing was written: write each to a place of its own"
        )

    def _filter_of_rate(self, rate: float | None) -> str:
        """Return a filter of an archive for the episodes of one rate among these, "" if no lane tells them apart."""
        lanes = {
            one: next((name for name in group.lanes if _PLAIN.fullmatch(name)), "") for one, group in self.rates.items()
        }
        if rate is not None:
            return f"lane.{lanes[rate]}.rate:{float(rate)!r}" if lanes[rate] else ""
        known = {name for one, name in lanes.items() if one is not None}
        return " ".join(f"-lane.{name}.rate:0.." for name in sorted(known)) if all(known) else ""

    @property
    def count(self) -> int:
        """The number of episodes that were described."""
        return sum(group.count for group in self.lanes.values())

    def add_lanes(self, lanes: Collection[str], info: EpisodeInfo, address: EpisodeAddress) -> None:
        """Count another episode by the lanes that all must have."""
        self.lanes.setdefault((*sorted(lanes),), _LanesGroup(0, address)).count += 1
        for lane in info.lanes.keys() & {*lanes}:
            self.shapes.setdefault(lane, set()).add((*info.lanes[lane].shape,))

    def check_lanes(self, where: str, without: Iterable[str] = ()) -> None:
        """Raise FormatError if only some of the episodes have a lane that all must have; where: place and format.

        Raises EntryNotFoundError for a lane to leave out that no episode has.
        """
        unknown = [name for name in without if self.names and not find_block(name, self.names)]
        if unknown:
            raise EntryNotFoundError(f"{where}: no lane {unknown[0]!r} to leave out; there are {', '.join(self.names)}")
        counts = Counter(lane for lanes, group in self.lanes.items() for lane in lanes for _ in range(group.count))
        some = [lane for lane, count in counts.items() if count < self.count]
        if not some:
            return
        lacking = {lane: next(one.example for lanes, one in self.lanes.items() if lane not in lanes) for lane in some}
        found = [f"{lane} in {counts[lane]} (not in {lacking[lane]})" for lane in some[:_SHOWN]]
        found += [f"{plural(len(some) - _SHOWN, 'other lane')} in some"] if len(some) > _SHOWN else []
        raise FormatError(
            f"{where}: expected the same lanes in all {self.count} episodes, found {', '.join(found)}; nothing was "
            f"written: {self._advise_on_lanes(counts, some)}"
        )

    def _advise_on_lanes(self, counts: Counter[str], some: Sequence[str]) -> str:
        """Return what gives all episodes the same lanes, and leaves none without an action that it has."""
        renamed = self._pair_lanes(counts, some)
        rest = [lane for lane in some if lane not in {*renamed, *renamed.values()}]
        common = {*counts, *renamed.values()} - {*rest, *renamed}
        stays = any(lane.startswith("action/") for lane in common)
        if not any("/" in lane for lane in common) or not (stays or all(_kind_of(lane) != "action" for lane in rest)):
            return "choose episodes of one robot"
        parts = []
        if renamed:
            options = " ".join(f"--map {shlex.quote(f'{old}={new}')}" for old, new in renamed.items())
            parts.append(f"`{options}` renames lanes of equal width, if they mean the same")
        if rest:
            options = " ".join(f"--without {shlex.quote(lane)}" for lane in rest)
            parts.append(f"`{options}` leaves {'it' if len(rest) == 1 else 'them'} out of all")
        return "; ".join(parts)

    def _pair_lanes(self, counts: Counter[str], some: Sequence[str]) -> dict[str, str]:
        """Return {lane: another of its kind and shape}, of which each episode has just one; no lane has two such."""
        fits = {
            lane: [
                other
                for other in some
                if _kind_of(lane) == _kind_of(other) != ""
                and self.shapes.get(lane) == self.shapes.get(other)
                and len(self.shapes.get(lane, ())) == 1
                and all((lane in lanes) != (other in lanes) for lanes in self.lanes)
            ]
            for lane in some
        }
        renamed: dict[str, str] = {}
        for lane, others in fits.items():
            if len(others) == 1 == len(fits[others[0]]) and lane not in renamed.values():
                old, new = sorted((lane, others[0]), key=lambda one: (one == _ACTION, counts[one]))
                renamed[old] = new
        return renamed


def _kind_of(lane: str) -> str:
    """Return "signal" or "action", "" for a lane of steps such as the reward."""
    return lane.partition("/")[0] if "/" in lane else ""


def _filter_of(name: str, value: Any) -> str:
    """Return a filter of an archive for episodes of this setting, "" for a value that needs quotes."""
    text = json.dumps(value).strip('"') if isinstance(value, str | int | float) else ""
    return f"{name}:{text}" if _SETTING.fullmatch(f"{name}:{text}") else ""
