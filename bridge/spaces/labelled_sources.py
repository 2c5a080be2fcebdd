"""Find sources of another scale, such as a second robot, by what episodes are labelled with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from bridge.spaces.sources import MAX_CHANNELS, compare_groups, discriminate, make_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.spaces.sources import SampledLane, Scale, Table
    from embedders.units import SourceScale


_MIN_LABELLED: Final = 8  # episodes of a label
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
        groups: list[tuple[list[str], Scale]] = []
        for label in known[1:]:
            scale = compare_groups(lane, values == label, values == known[0])
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


def _are_alike(scale: Scale, other: Scale) -> bool:
    return bool(np.median(np.abs(np.log(scale[0] / other[0]))) < _ALIKE)


def _describe(
    table: Table, field: str, values: NDArray[np.str_], known: Sequence[str], group: tuple[list[str], Scale]
) -> SourceScale:
    labels, scale = group
    is_known = np.isin(values, known)
    discriminant = discriminate(table.pick(is_known), np.isin(values[is_known], labels), _MAX_WRONG)
    usual = tuple(label for label in known if label not in labels)
    return make_source(discriminant, scale, field=field, labels=tuple(labels), usual_labels=usual)
