"""What benchmark RB-N does to archives, and what it counts of them. No fixture is needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from paths import ROOT

from embedders import Statistics

FOLDER = ROOT / "benchmarks" / "retrieval"


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    import rb_a_methods  # noqa: PLC0415  (importable only now)
    import rb_n  # noqa: PLC0415
    import rb_n_nuisances  # noqa: PLC0415

    yield SimpleNamespace(methods=rb_a_methods, n=rb_n, nuisances=rb_n_nuisances)
    for name in [name for name in sys.modules if name.startswith(("rb_", "dtw")) or name == "machine"]:
        sys.modules.pop(name)


def make_archive(modules, count):
    rng = np.random.default_rng(5)
    labels = rng.normal(size=(4, 30, 6)).cumsum(axis=1)
    episodes = [labels[n % 4] + 0.1 * rng.normal(size=(30, 6)) for n in range(count)]
    steps = np.concatenate(episodes)
    frozen = Statistics(len(steps), steps.mean(axis=0), steps.std(axis=0))
    return modules.methods.Archive(episodes, frozen, np.arange(count) % 4, np.arange(0, count, 5))


def disturb(modules, name):
    episodes = [modules.n.as_lanes(rows) for rows in make_archive(modules, 20).episodes]
    (nuisance,) = [one for one in modules.nuisances.NUISANCES if one.name == name]
    clean = nuisance.prepared(episodes)
    return clean, nuisance.disturbed(clean)


def test_half_of_the_archive_is_disturbed_and_the_rest_is_as_it_was(modules):
    for name in ("one lane more", "mm and m mixed", "query and half of all outside", "half the rate"):
        clean, disturbed = disturb(modules, name)
        assert sum(one is other for one, other in zip(clean, disturbed, strict=True)) == 10


def test_rotations_and_directions_stay_what_they_are(modules):
    for before, after in zip(*disturb(modules, "quaternion signs per episode"), strict=True):
        np.testing.assert_allclose(np.linalg.norm(after["state"], axis=1), 1)
        same = after["state"] / before["state"]
        np.testing.assert_allclose(same, np.tile(same[0, 0], same.shape))
    for before, after in zip(*disturb(modules, "angles wrapped at pi"), strict=True):
        assert np.abs(after["state"]).max() <= np.pi
        np.testing.assert_allclose(np.exp(1j * after["state"]), np.exp(1j * before["state"]))


def test_fewer_channels_are_the_first_of_more(modules):
    clean, disturbed = disturb(modules, "257 channels, for 63")
    for before, after in zip(clean, disturbed, strict=True):
        assert [sum(rows.shape[1] for rows in lanes.values()) for lanes in (before, after)] == [63, 257]
        assert np.array_equal(after["state"][:, : before["state"].shape[1]], before["state"])
        assert len(np.unique(after["state"], axis=1).T) == after["state"].shape[1]


def test_what_was_not_found_counts_as_never_found(modules):
    archive = make_archive(modules, 8)
    found = modules.n.scored(np.full((len(archive.asking), 8), -np.inf), archive)
    assert found == (0, 0, 0)


@pytest.mark.long
def test_a_set_is_measured_and_its_table_has_all_rows(modules):
    archive = make_archive(modules, 16)
    chosen = [one for one in modules.nuisances.NUISANCES if one.name in {"one lane more", "lanes reordered"}]
    results = [*modules.n.measure_episodes("swimmer", archive, chosen), *modules.n.measure_moments("swimmer", archive)]
    assert len(results) == 2 * len(chosen)
    assert all(0 <= one.precision <= 1 and 0 <= one.uncompared < 1 for one in results)
    reordered = [one for one in results if one.nuisance == "lanes reordered"]
    assert all(one.uncompared == 0 and one.precision == one.clean_precision for one in reordered)
    assert [line.split(" | ")[0] for line in modules.n.report(results).splitlines()[2:4]] == [
        f"| {one.name}" for one in chosen
    ]
