"""Few-shot search: marks spread over the neighbour graph where there are groups, else a linear classifier decides."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save

from bridge.curation import train_probe
from wshard import open_archive
from wshard.errors import QueryError

SIZE = 14


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("marked")
    ingest(place / "archive", *save(place / "data", *(episode(n % 3, n // 3, 40) for n in range(3 * SIZE))))
    return place / "archive"


def ids_of(archive, task):
    """Return the ids of the episodes of a task."""
    return archive.catalog.query.ids(f"env:task-{task}")


@pytest.mark.parametrize("where", ["", "meta.number:>=8"])
def test_a_few_marks_find_the_rest_of_their_group(folder, where):
    with open_archive(folder) as archive:
        right, wrong = ids_of(archive, 1), ids_of(archive, 0)
        probe = train_probe(archive, right[:3], wrong[:3], where)
        assert probe.by_graph is not bool(where)  # with a filter there are few
        found = [row.id for row, _ in probe.ranked()]
        expected = {*right} & {*archive.catalog.query.ids(where)}
        assert {*found[: len(expected)]} == expected
        assert len(found) == len(archive.catalog.query.ids(where))
        assert (probe.precision, probe.recall) == (1.0, 1.0)
        uncertain = {row.id for row, _ in probe.uncertain(12)}
        assert not uncertain & {*right[:3], *wrong[:3]}


def test_values_of_right_examples_are_high_and_those_of_wrong_ones_low(folder):
    with open_archive(folder) as archive:
        right, wrong = ids_of(archive, 2)[:3], ids_of(archive, 1)[:3]
        values = {row.id: value for row, value in train_probe(archive, right, wrong).ranked()}
        assert min(values[id_] for id_ in right) > 0.5 > max(values[id_] for id_ in wrong)
        assert 0 <= min(values.values()) <= max(values.values()) <= 1


def test_without_groups_a_line_decides(tmp_path):
    rng = np.random.default_rng(0)
    ones = [episode(0, number, 30) for number in range(60)]
    for one in ones:
        one.observations["state"].data[:] = rng.normal(size=(30, 4))
    ingest(tmp_path / "archive", *save(tmp_path / "data", *ones))
    with open_archive(tmp_path / "archive") as archive:
        ids = archive.catalog.query.ids()
        assert not train_probe(archive, ids[:3], ids[3:6]).by_graph


def test_examples_that_a_space_lacks_are_named(tmp_path):
    arms, hands = ([episode(task, n, 30, lanes=(lane,)) for n in range(8)] for task, lane in enumerate(("arm", "hand")))
    ingest(tmp_path / "archive", *save(tmp_path / "data", *arms, *hands))
    with open_archive(tmp_path / "archive") as archive:
        ones, others = ids_of(archive, 0), ids_of(archive, 1)
        for row in archive.catalog.vectors.spaces():
            missing = "task-1-0" if "arm" in row.definition else "task-0-0, task-0-1, task-0-2, task-0-3, task-0-4, ..."
            with pytest.raises(QueryError, match=rf"Space {row.fingerprint[:12]}, found none of {missing}$"):
                train_probe(archive, ones[:6], others[:1], space=row.fingerprint)
