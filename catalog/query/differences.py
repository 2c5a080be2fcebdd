"""How the episodes of an archive differ: the columns and facets that tell them apart, by a sample."""

from __future__ import annotations

import math
import posixpath
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from catalog.filters.fields import field_of, quoted
from catalog.filters.where import Compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog.query.api import Queries
    from catalog.records import EpisodeRow
    from catalog.values import Scalar

_DEEPEST: Final = 3
_MOST_VALUES: Final = 30  # of a key, to be a facet
_MOST_KEYS: Final = 6  # facets of metadata
_COMMON: Final = 0.1  # of the episodes have a key that is a facet by itself
_REPEATED: Final = 0.5  # values per episode up to which they are no ids
_REPEATED_TASKS: Final = 0.8  # there are more of these, so that a sample has many once
_LABELS: Final = 2  # of an episode
_LABELLED: Final = 0.3  # of the pairs of episodes differ in a label
_ANNOTATION: Final = (0.6, 0.8)  # least and greatest weight of what people write: a tag of one follows three tasks


@dataclass(frozen=True)
class Differences:
    """Names of fields in which episodes differ, those that tell more of them apart first.

    columns: of lists. facets: fields to count the values of, in the order of display; more_facets: others that may be.
    labels: texts that say what an episode is, next to its name. keys: all fields of metadata, by name.
    """

    columns: tuple[str, ...]
    facets: tuple[str, ...]
    more_facets: tuple[str, ...]
    labels: tuple[str, ...]
    keys: tuple[str, ...]


def find_keys(rows: Sequence[EpisodeRow]) -> tuple[str, ...]:
    """Return all fields of metadata that these episodes have, by name."""
    return tuple(sorted(_metadata(rows)))


def find_differences(query: Queries, rows: Sequence[EpisodeRow]) -> Differences:
    """Return how the episodes differ: by these rows, and of annotations by all that the archive has."""
    values: dict[str, list[Any]] = {
        "env": [row.env_id for row in rows],
        "meta.task": [row.metadata.get("task") for row in rows],
        "length": [row.length for row in rows],
        "reward": [row.total_reward for row in rows],
        "folder": [posixpath.dirname(row.path) for row in rows],
        "path": [row.path for row in rows],
        "success": [row.success for row in rows],
        "format": [row.format for row in rows],
    }
    own = _metadata(rows)
    facets, others = _find_facets(query, values, own)
    named = ("env", "meta.task", *(name for name in facets if name in own))
    labels = _find_labels({name: values[name] if name in values else own[name] for name in named})
    return Differences(_find_columns(query, values), facets, others, labels, tuple(sorted(own)))


def _find_columns(query: Queries, values: Mapping[str, list[Any]]) -> tuple[str, ...]:
    weights = {name: _tell_apart(values[name]) for name in values if not _is_repetition(name, values)}
    episodes = query.count()
    counts = {name: query.count(Compare(field, "exists")) for name, field in _ANNOTATIONS.items()} if episodes else {}
    least, most = _ANNOTATION
    weights |= {name: min(most, least + count / episodes) for name, count in counts.items() if count}
    if counts.get("review"):  # somebody goes through the archive
        weights["review"] = most
    telling = [name for name, weight in weights.items() if weight > 0]
    return tuple(sorted(telling, key=lambda name: -round(weights[name], 1)))


_ANNOTATIONS: Final = {"review": "review", "tags": "tag", "score.rating": "score.rating"}


def _is_repetition(name: str, values: Mapping[str, list[Any]]) -> bool:
    """Return whether a column repeats what another says."""
    everything = values[name]
    if name == "meta.task":
        return everything == values["env"]
    if name in ("path", "folder") and len({*everything}) == len(everything):
        return True  # each has one of its own, which tells what its name tells
    if name == "folder":
        kinds = (values["env"], [*map(str, values["meta.task"])])
        pairs = ({*zip(one, everything, strict=True)} for one in kinds)
        return any(len(pair) == len({*one}) < len(everything) for pair, one in zip(pairs, kinds, strict=True))
    return False


def _find_facets(
    query: Queries, values: Mapping[str, list[Any]], own: Mapping[str, list[Any]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the facets of an archive, and those that may be added."""
    tasks, places = (
        [name for name in names if _has_few(values[name], share) and not _is_repetition(name, values)]
        for names, share in ((("meta.task",), _REPEATED_TASKS), (("folder", "path"), _REPEATED))
    )
    least, most = ([row.format for row in query.select(order=order, limit=1).rows] for order in ("format", "-format"))
    formats = ["format"] * (least != most)
    written = [name for name in ("review", "tag", "flag", "collection") if _has(query, name)]
    keys = _find_keys(values, own)
    common = [key for key in keys if not _is_of_place(key) and own[key].count(None) <= (1 - _COMMON) * len(own[key])]
    first = ("env", *tasks, "success", *common[:_MOST_KEYS], *places, *formats, *written)
    others = (*keys, "folder", "path", *sorted(own))
    return first, tuple(name for name in dict.fromkeys(others) if name not in first)


def _find_keys(values: Mapping[str, list[Any]], own: Mapping[str, list[Any]]) -> list[str]:
    """Return the keys of metadata with few values, the most telling first, without those that repeat another field."""
    known = {_divide(values[name]) for name in values}
    formats = values["format"]
    weights: dict[str, float] = {}
    for key, everything in sorted(own.items(), key=lambda item: (_is_of_place(item[0]), item[0])):
        if len({*zip(formats, _written(everything), strict=True)}) == len({*formats}):
            continue  # what the files of a format have, or none
        if _has_few(everything, most=_MOST_VALUES) and _divide(everything) not in known:
            known.add(_divide(everything))
            weights[key] = _tell_apart(everything)
    return sorted(weights, key=lambda key: -weights[key])


def _is_of_place(key: str) -> bool:
    """Return whether a key names a topic or a file of the recording, which says little about what happens in it."""
    return "/" in key


def _find_labels(values: Mapping[str, list[Any]]) -> tuple[str, ...]:
    """Return the first fields of texts in which episodes differ much, without those that follow from others."""
    labels: list[str] = []
    for name, everything in values.items():
        known = [values[label] for label in labels]
        if (
            all(isinstance(value, str) or value is None for value in everything)
            and _tell_apart(everything) >= _LABELLED
            and len({*zip(*known, everything, strict=True)}) > len({*zip(*known, strict=True)})
        ):
            labels.append(name)
    return tuple(labels[:_LABELS])


def _metadata(rows: Sequence[EpisodeRow]) -> dict[str, list[Any]]:
    """Return the value in each episode of every key of the metadata, by field."""
    found: dict[str, list[Any]] = {}
    for place, row in enumerate(rows):
        for name, value in _scalars(row.metadata, "meta"):
            found.setdefault(field_of(name).short, [None] * len(rows))[place] = value
    return found


def _scalars(values: Mapping[str, Any], prefix: str, depth: int = 1) -> Iterator[tuple[str, Scalar]]:
    for key, value in values.items():
        name = f"{prefix}.{quoted(key)}"
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _scalars(value, name, depth + 1)
        elif isinstance(value, str | int | float):
            yield name, value


def _has(query: Queries, field: str) -> bool:
    return bool(query.select(Compare(field, "exists"), order="id", limit=1).rows)


def _has_few(everything: Sequence[Any], share: float = _REPEATED, *, most: float = math.inf) -> bool:
    """Return whether episodes differ, by at most this share of different values per episode that has one."""
    counts = Counter(_written(everything))
    missing = counts.pop("None", 0)
    return len(counts) + bool(missing) > 1 and len(counts) <= min(most, share * counts.total())


def _tell_apart(everything: Sequence[Any]) -> float:
    """Return the share of pairs of episodes that have different values."""
    return (
        1 - sum((count / len(everything)) ** 2 for count in Counter(_written(everything)).values())
        if everything
        else 0.0
    )


def _divide(everything: Sequence[Any]) -> tuple[int, ...]:
    """Return which episodes have equal values, by the place of the first that has the value of each."""
    first: dict[str, int] = {}
    return tuple(first.setdefault(value, place) for place, value in enumerate(_written(everything)))


def _written(everything: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(repr, everything))
