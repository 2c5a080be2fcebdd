"""Find sources of another scale, such as a second robot, by what episodes are labelled with.

Labels that say which task it is tell episodes apart whatever their scale. Those of a source tell them apart by scale
and offset alone: in shape they are mixed, and converted to one scale they are mixed as a whole.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from bridge.spaces.sources import MAX_CHANNELS, discriminate, make_source, measure_distances, relate
from embedders.standardise import STD_FLOOR
from embedders.units import relate_spreads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.spaces.sources import SampledLane, Table
    from embedders.units import SourceScale

    Rows = NDArray[np.float64]
    Mask = NDArray[np.bool_]
    _Scale = tuple[Rows, Rows]  # ratios and offsets [C]

_MIN_LABELLED: Final = 8  # episodes of a label
_NEIGHBOURS: Final = 5
_APART: Final = 0.5
_MIXED_SHAPES: Final = 0.8
_MIXED: Final = 0.85
"""Shares of neighbours that have the other label, of those expected where labels say nothing: at most as the episodes
are, and at least by their shapes, and as converted."""
_ROUNDS: Final = 10
_FAR: Final = 5.0
_ALIKE: Final = 0.25  # natural logarithms between ratios of labels that are one source
_MAX_WRONG: Final = 0.1  # of the episodes, by mean and spread: with more, those without a label are taken for usual


class _Labelled(NamedTuple):
    """The label of each episode by a field, "" for none, and those that enough have, the most frequent first."""

    field: str
    values: NDArray[np.str_]
    known: list[str]


def find_labelled(lane: SampledLane, labels: Sequence[Mapping[str, str]]) -> tuple[SourceScale, ...]:
    """Return the sources among episodes with these labels, by the first field that tells some."""
    if len(lane.episodes) < 2 * _MIN_LABELLED or lane.channels > MAX_CHANNELS:
        return ()
    fields = dict.fromkeys(field for one in labels for field in one)
    several = [found for field in fields if len((found := _find_known(field, labels)).known) > 1]
    for field, values, known in several:
        groups: list[tuple[list[str], _Scale]] = []
        for label in known[1:]:
            scale = _compare(lane, values == label, values == known[0])
            own = next((labels for labels, other in groups if scale and _are_alike(scale, other)), None)
            if own is not None:
                own.append(label)
            elif scale is not None:
                groups.append(([label], scale))
        if groups:
            return tuple(_describe(lane.table, field, values, known, group) for group in groups)
    return ()


def _find_known(field: str, labels: Sequence[Mapping[str, str]]) -> _Labelled:
    values = np.array([one.get(field, "") for one in labels])
    counts = Counter(values[values != ""].tolist()).most_common()
    return _Labelled(field, values, [label for label, count in counts if count >= _MIN_LABELLED])


def _are_alike(scale: _Scale, other: _Scale) -> bool:
    return bool(np.median(np.abs(np.log(scale[0] / other[0]))) < _ALIKE)


def _compare(lane: SampledLane, is_other: Mask, is_usual: Mask) -> _Scale | None:
    """Return ratios and offsets [C] of the other label's episodes; None if these do not tell both apart."""
    table, shapes = lane.table, lane.shapes
    other, usual = np.flatnonzero(is_other), np.flatnonzero(is_usual)
    both, count = np.concatenate([other, usual]), len(other)
    if _mixed(_features(table.pick(both)), count) > _APART or _mixed(shapes[both], count) < _MIXED_SHAPES:
        return None
    pairs = other.repeat(len(usual)), np.tile(usual, len(other))
    ratios, offsets = relate(table, *pairs)
    for _ in range(_ROUNDS):
        converted = table.convert(other, ratios, offsets).pick(both)
        features = np.concatenate([_features(converted), shapes[both]], axis=1)
        distances = measure_distances(features[:count], features[count:])
        first = np.concatenate([other, other[distances.argmin(axis=0)]])
        second = np.concatenate([usual[distances.argmin(axis=1)], usual])
        ratios, offsets = relate(table, first, second)
    converted = table.convert(other, ratios, offsets).pick(both)
    return (ratios, offsets) if _mixed(_features(converted), count) >= _MIXED else None


def _features(table: Table) -> Rows:
    """Return robust scores of means and logarithms of spreads [N, 2 * C]."""
    spreads = np.maximum(np.median(table.stds, axis=0), STD_FLOOR)
    marks = relate_spreads(table.means, table.stds, np.median(table.means, axis=0), spreads)
    centered = marks - np.median(marks, axis=0)
    deviations = np.maximum(1.48 * np.median(np.abs(centered), axis=0), 1e-3)
    return np.clip(centered / deviations, -_FAR, _FAR)


def _mixed(features: Rows, count: int) -> float:
    """Return the share of neighbours of the other group, of that expected by chance; the first `count` are one."""
    distances = measure_distances(features, features)
    np.fill_diagonal(distances, np.inf)
    is_first = np.arange(len(features)) < count
    is_cross = is_first[np.argsort(distances, axis=1)[:, :_NEIGHBOURS]] != is_first[:, None]
    others = len(features) - 1
    parts = [is_cross[is_first].mean() / (len(features) - count), is_cross[~is_first].mean() / count]
    return float(np.mean(parts)) * others


def _describe(
    table: Table, field: str, values: NDArray[np.str_], known: Sequence[str], group: tuple[list[str], _Scale]
) -> SourceScale:
    labels, scale = group
    is_known = np.isin(values, known)
    discriminant = discriminate(table.pick(is_known), np.isin(values[is_known], labels), _MAX_WRONG)
    usual = tuple(label for label in known if label not in labels)
    return make_source(discriminant, scale, field=field, labels=tuple(labels), usual_labels=usual)
