"""Vectors that are nearly equal: few documents, and every vector found all the same."""

from __future__ import annotations

import numpy as np
import pytest
from deepdata_bench import bench

from bridge.index.deepdata.near import Near
from bridge.testing.brute_force import unit_vectors
from bridge.testing.index_contract import check, top
from catalog import EVERYTHING, build_where


@pytest.mark.parametrize("dim", [6, 64, 256])
@pytest.mark.parametrize("noise", [0.0, 1e-7, 1e-5, 1e-4])
def test_one_vector_stands_for_those_around_it(dim, noise):
    rng, centres = np.random.default_rng(2), unit_vectors(40, 1, dim)
    groups = np.arange(2000) % 40
    vectors = centres[groups] + noise * rng.normal(size=(2000, dim))
    found = Near(dim).add([str(at) for at in range(2000)], [one.astype("<f4").tobytes() for one in vectors])
    standing = [{name for name, group in zip(found, groups, strict=True) if group == one} for one in range(40)]
    assert max(map(len, standing)) <= 5, "the server's graph bears 20"
    assert len(set.union(*standing)) == sum(map(len, standing)), "no vector stands for those of another group"
    if noise < 1e-4:
        assert found == [str(group) for group in groups], "the first of each"


@pytest.mark.parametrize("dim", [6, 256])
def test_what_is_farther_away_stands_for_itself(dim):
    rng = np.random.default_rng(2)
    vectors = unit_vectors(1, 1, dim) + 1e-2 * rng.normal(size=(30, dim))
    names = [str(at) for at in range(30)]
    assert Near(dim).add(names, [one.astype("<f4").tobytes() for one in vectors]) == names


@pytest.mark.parametrize("noise", [1e-4, pytest.param(1e-6, marks=pytest.mark.long)])
def test_s4_nearly_equal_vectors_are_one_document_and_all_of_them_are_hits(tmp_path, noise):
    with bench(tmp_path) as made:
        ids, rng = made.shelf.register(200), np.random.default_rng(4)
        standing = unit_vectors(3, 5)[np.arange(150) % 3] + noise * rng.normal(size=(150, 6)).astype(np.float32)
        standing /= np.linalg.norm(standing, axis=1, keepdims=True)
        vectors = [*standing[:, None], *(unit_vectors(1, 100 + number) for number in range(50))]
        order = rng.permutation(200).tolist()
        for part in (order[:30], order[30:120], order[120:]):  # in batches of 20, two by another process each
            made.again()
            made.shelf.put(made.space, {ids[at]: vectors[at] for at in part})
        assert len(made.collection.documents) == 53
        with made.shelf.still():
            for at in range(0, 200, 67):
                for where in (EVERYTHING, build_where(env_id="env-3"), build_where(min_length=150)):
                    check(made.shelf, made.space, vectors[at][0], top(7, where))
                    check(made.shelf, made.space, vectors[at][0], top(150, where))
        assert made.shelf.index.count(made.space) == 200
        assert made.shelf.index.audit(made.space, full=True).state == "ok"
        first = next(at for at in order if at < 150)
        made.shelf.bury([ids[first]], made.space)  # its document stands for the others
        made.shelf.put(made.space, {ids[first]: vectors[first]})
        made.fake.restart(graceful=False)  # with nothing: all goes again, by what is left of each group
        made.again().upsert(made.space, [])
        assert len(made.collection.documents) == 53
        for number in [*made.collection.documents][::2]:
            del made.collection.documents[number]
        made.shelf.index.repair(made.space)
        assert made.shelf.index.audit(made.space, full=True).state == "ok"
        for at in range(0, 200, 17):
            check(made.shelf, made.space, vectors[at][0], top(60))
        for point in made.shelf.index.scan(made.space):
            assert np.array_equal(point.vectors, vectors[ids.index(point.episode)])
        made.shelf.bury(ids, made.space)
        assert made.collection.documents == {}


def test_two_vectors_near_one_that_was_removed_are_sent_and_found(tmp_path):
    with bench(tmp_path) as made:
        ids, near = made.shelf.register(3), np.repeat(unit_vectors(1, 5), 3, axis=0)
        near[:, 1] += (0, 1e-4, 2e-4)
        vectors = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
        made.shelf.put(made.space, {ids[0]: vectors[:1]})
        made.shelf.bury(ids[:1], made.space)
        made.shelf.put(made.space, {ids[1]: vectors[1:2], ids[2]: vectors[2:]})
        assert len(made.collection.documents) == 1
        assert made.shelf.index.audit(made.space, full=True).state == "ok"
        assert len(check(made.shelf, made.space, vectors[0], top(5))) == 2
