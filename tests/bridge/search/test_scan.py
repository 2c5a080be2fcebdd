"""Short moments, and those at another speed: the scan against brute force, and from files to hits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plays import stored

from bridge.search.moments import all_timesteps, block_distances, cell_scan, cells, nearest_places, scan, stored_cells
from bridge.search.moments import search as moment_search
from bridge.search.moments.blocks import CHANGE, count_blocks
from bridge.search.moments.cells import divide, list_blocks, list_changes
from bridge.search.moments.lane_rows import PreparedRows
from bridge.search.moments.overlap import overlap
from bridge.search.moments.scan import Timesteps, pace
from embedders import ArcDct
from embedders.windows import SCALES, WindowPlan
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever

EPISODES = {number: np.random.default_rng(number).normal(size=(60 + number, 5)).cumsum(axis=0) for number in range(12)}
SPAN = EPISODES[3][20:60]


def faster(rows, speed):
    places = np.linspace(0, len(rows) - 1, round(len(rows) / speed))
    return np.stack([np.interp(places, np.arange(len(rows)), column) for column in rows.T], axis=1)


def planted(number, rows, start):
    changed = EPISODES[number].copy()
    changed[start : start + len(rows)] = rows + 0.1 * np.random.default_rng(number).normal(size=rows.shape)
    return changed


MOMENTS = {5: planted(5, SPAN[:8], 31), 6: planted(6, SPAN[:8], 7), 7: planted(7, faster(SPAN, 2.5), 17)}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    place = tmp_path_factory.mktemp("walks")
    rows = {**EPISODES, **MOMENTS}
    lanes = {number: {"state": Channel.of("state", one.astype(np.float32))} for number, one in rows.items()}
    episodes = [Episode(str(number), "walk", len(rows[number]), observations=one) for number, one in lanes.items()]
    stored(place, episodes, plan=WindowPlan(scales=SCALES))
    return place


@pytest.mark.parametrize("steps", [5, 7, 8, 20, 31])
def test_the_nearest_span_is_that_of_all_with_the_least_distance_between_blocks(steps):
    timesteps = Timesteps.of({number: PreparedRows(rows) for number, rows in EPISODES.items()})
    query = EPISODES[4][11 : 11 + steps] + np.random.default_rng(steps).normal(size=(steps, 5)) / 2
    found = timesteps.scan(pace(query)[:1], 10).same
    last = (steps - 5) // 2
    count = min(4, steps // 4, last + 1)
    all_costs = {}
    for number, rows in EPISODES.items():
        for start in range(len(rows) - steps + 1):
            places = start % 2 + 2 * np.round(np.linspace(0, last, count)).astype(int)
            pairs = [(rows[start + at : start + at + 4].mean(axis=0), query[at : at + 4].mean(axis=0)) for at in places]
            all_costs[number, start] = float(np.mean([(one - other) ** 2 for one, other in pairs]))
    assert (found.episodes[0], found.spans[0, 0]) == min(all_costs, key=all_costs.__getitem__)
    one = timesteps.scan(pace(query)[:1], 1).same  # most blocks are not compared
    assert (one.episodes[0], one.spans[0, 0]) == (found.episodes[0], found.spans[0, 0])
    costs = [all_costs[key] for key in zip(found.episodes.tolist(), found.spans[:, 0].tolist(), strict=True)]
    assert costs == sorted(costs)
    assert (found.spans[:, 1] - found.spans[:, 0] == steps).all()


@pytest.mark.parametrize("steps", [8, 11, 33, 48])
def test_a_copy_is_nearest_wherever_it_begins_and_with_an_offset(steps):
    timesteps = Timesteps.of({number: PreparedRows(rows) for number, rows in EPISODES.items()})
    for start in (0, 1, 2, 3, 7, 66 - steps):
        scanned = timesteps.scan(pace(EPISODES[6][start : start + steps])[:1], 5)
        for nearest in (scanned.same, scanned.equal):
            assert (nearest.episodes[0], nearest.spans[0].tolist()) == (6, [start, start + steps])
        if steps > 11:  # of fewer only some starts are met
            shifted = timesteps.scan(pace(EPISODES[6][start : start + steps] + 3.0)[:1], 5).shifted
            assert (shifted.episodes[0], shifted.spans[0, 0]) == (6, start)


def generate(random, kind):
    """Return the rows of 200 episodes of some kind, some too short for any query."""
    episodes = {}
    for number in range(200):
        rows = random.normal(size=(random.integers(1, 120), 4)).cumsum(axis=0)
        if kind == "constant" and number % 3:
            rows[:] = np.round(rows[0])
        elif kind == "offset":
            rows = rows / 5 + 2 * (number % 5)
        elif kind == "scale":
            rows = (rows * np.array([1e-3, 0.1, 1, 30]) if number % 2 else rows / 1e3).clip(-10, 10)
        elif kind == "sorted":
            rows = rows / 20 + number / 10
        elif kind == "repeated" and number > 9:
            rows = episodes[number % 10].copy()
        episodes[number] = rows
    return episodes


def with_cells(timesteps, count):
    """Return the same, the first so many episodes in cells."""
    lengths, width = timesteps.lengths[:count], timesteps.rows.shape[1]
    places = int(count_blocks(lengths)[1].sum())
    made = []
    for values, rows, apart in (
        (timesteps.blocks, list_blocks(lengths), 1),
        (timesteps.changes, list_changes(lengths), CHANGE),
    ):
        parts = zip(*divide(values, rows, width), strict=True)
        made.append(cells.Cells.of([np.concatenate(part) for part in parts], apart, places))
    return replace(timesteps, cells=made)


KINDS = [
    ("walk", 0, 8, 0.1),
    ("walk", 4, 50, 2),
    ("constant", 1, 9, 1),
    ("offset", 2, 20, 0.3),
    ("scale", 3, 33, 0.1),
    ("sorted", 5, 30, 0.1),
    ("repeated", 6, 41, 0.01),
]
PARTS = ("same", "shifted", "equal")


@pytest.fixture
def small_cells(monkeypatch):
    monkeypatch.setattr(block_distances, "_FEW_PLACES", 0)  # so that not all places of few episodes are compared
    monkeypatch.setattr(block_distances, "_SHARE", 0)
    monkeypatch.setattr(cell_scan, "_CELLS", 2)  # so that limits are lowered many times
    monkeypatch.setattr(nearest_places, "_PLACES", 64)
    monkeypatch.setattr(cells, "_MEMBERS", 8)


def make_query(kind, seed, steps, noise):
    random = np.random.default_rng(seed)
    moving = generate(random, kind)
    source = next(rows for rows in moving.values() if len(rows) > steps + 4)
    query = source[3 : 3 + steps] + noise * random.normal(size=(steps, 4))
    return Timesteps.of({number: PreparedRows(rows) for number, rows in moving.items()}), pace(query)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_find_what_all_comparisons_do(kind, small_cells, monkeypatch):
    monkeypatch.setattr(cell_scan, "MOST", 1e9)
    timesteps, paced = make_query(*kind)
    for ids in (None, np.arange(0, 200, 3)):
        expected = timesteps.scan(paced, 5, ids)
        for count in (200, 150):
            found = with_cells(timesteps, count).scan(paced, 5, ids)
            assert found.is_complete
            for near, wanted in zip(
                (*(getattr(found, part) for part in PARTS), *found.others),
                (*(getattr(expected, part) for part in PARTS), *expected.others),
                strict=True,
            ):
                assert near.episodes.tolist() == wanted.episodes.tolist()
                assert near.spans.tolist() == wanted.spans.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_however_few_members_are_compared_no_equal_place_is_missed_and_others_only_if_it_is_said(
    kind, small_cells, monkeypatch
):
    timesteps, (query, *_) = make_query(*kind)
    grid = timesteps._grid
    wanted = nearest_places.Wanted(40, least=1e-4)
    everything = nearest_places.NearestPlaces(grid, scan._template(query), wanted)
    nearest_places.compare_all([everything], timesteps._columns)
    expected = everything.found
    complete = []
    for most in (0.01, 0.1, 0.3, 1, 100):
        monkeypatch.setattr(cell_scan, "MOST", most)
        search = nearest_places.NearestPlaces(grid, scan._template(query), wanted)
        cell_scan.find_in_cells([search], with_cells(timesteps, 200).cells[0])
        found = {*search.found.places.tolist()}
        assert {*expected.places[expected.distances < 0.99e-4].tolist()} <= found
        near = expected.distances < 0.999 * np.sort(expected.distances)[:40].max()
        if search.is_complete:
            assert {*expected.places[near].tolist()} <= found
        complete.append(search.is_complete)
    assert complete == sorted(complete)
    assert complete[-1]
    assert not all(complete)


def test_where_a_filter_excludes_what_is_near_all_others_are_compared(small_cells, monkeypatch):
    monkeypatch.setattr(cell_scan, "MOST", 0.05)
    random = np.random.default_rng(8)
    near = random.normal(size=(40, 4)).cumsum(axis=0)
    rows = {number: near + 0.1 * random.normal(size=near.shape) for number in range(150)}
    rows |= {number: random.normal(size=(40, 4)).cumsum(axis=0) for number in range(150, 200)}
    timesteps, paced = Timesteps.of({number: PreparedRows(one) for number, one in rows.items()}), pace(near[:8])
    monkeypatch.setattr(scan, "_EACH", 0)
    expected, found = (one.scan(paced, 5, np.arange(150, 200)) for one in (timesteps, with_cells(timesteps, 200)))
    assert found.is_complete
    assert (found.same.episodes == expected.same.episodes).all()
    assert (found.same.spans == expected.same.spans).all()
    assert not with_cells(timesteps, 200).scan(paced, 5).is_complete


def test_episodes_that_are_not_allowed_or_too_short_are_not_scanned():
    timesteps = Timesteps.of(
        {number: PreparedRows(rows) for number, rows in {**EPISODES, 99: SPAN[:3], 98: SPAN[:9]}.items()}
    )
    scanned = timesteps.scan(pace(SPAN[:10]), 50, allowed=np.array([2, 98, 99]))
    for nearest in (scanned.same, scanned.shifted, scanned.equal, *scanned.others):
        assert {*nearest.episodes.tolist()} <= ({2, 98} if len(nearest.query.rows) < 10 else {2})
    everything = timesteps.scan(pace(SPAN[:10]), 50).same
    assert everything.episodes[0] == 3
    assert not {98, 99} & {*everything.episodes.tolist()}


def test_moments_of_eight_timesteps_with_noise_are_found_though_windows_are_longer(archive):
    with TrajectoryRetriever(archive) as retriever:
        hits = retriever.search_moments(SPAN[:8].astype(np.float32), 3)
        only = retriever.search_moments(SPAN[:8].astype(np.float32), 1, where="episode_id:6")
    assert {(hit.episode_id, hit.span) for hit in hits} == {("3", (20, 28)), ("5", (31, 39)), ("6", (7, 15))}
    assert hits[0].episode_id == "3"
    assert [(hit.episode_id, hit.span) for hit in only] == [("6", (7, 15))]


def test_a_moment_that_is_two_and_a_half_times_as_fast_is_found_with_its_path_in_steps_of_the_query(archive):
    with TrajectoryRetriever(archive) as retriever:
        fast = next(hit for hit in retriever.search_moments(SPAN.astype(np.float32), 3) if hit.episode_id == "7")
    assert overlap(np.array([[17, 33]]), fast.span)[0] > 0.8
    path = np.array(fast.alignment)
    assert (path[0, 0], path[-1, 0]) == (0, len(SPAN) - 1)
    assert (np.diff(path, axis=0) >= 0).all()
    assert (path[0, 1], path[-1, 1]) == (fast.span[0], fast.span[1] - 1)
    np.testing.assert_allclose(np.polyfit(path[:, 1], path[:, 0], 1)[0], 2.5, atol=0.3)


def test_a_file_that_is_gone_and_is_there_again_is_left_out_and_found_again(archive):
    with TrajectoryRetriever(archive) as retriever:
        file = archive / "episodes" / "6.wshard"
        query = SPAN[:8].astype(np.float32)
        assert "6" in {hit.episode_id for hit in retriever.search_moments(query, 3)}
        away = file.rename(file.with_suffix(".away"))
        without = retriever.search_moments(query, 3)
        away.rename(file)
        assert "6" not in {hit.episode_id for hit in without}
        assert without.missing == 1
        assert "6" in {hit.episode_id for hit in retriever.search_moments(query, 3)}


def search(archive, count=4):
    with TrajectoryRetriever(archive) as retriever:
        return retriever.search_moments(SPAN[:8].astype(np.float32), count)


def test_timesteps_are_read_once_and_again_where_what_is_stored_is_damaged(tmp_path, monkeypatch):
    read, load = [], all_timesteps.LaneRows.load

    def count(self, rows, space, scaling):
        rows = [*rows]
        read.extend(int(row.episode_id) for row in rows)
        return load(self, rows, space, scaling)

    lanes = {number: {"state": Channel.of("state", one.astype(np.float32))} for number, one in EPISODES.items()}
    episodes = [Episode(str(number), "walk", len(EPISODES[number]), observations=one) for number, one in lanes.items()]
    stored(tmp_path, episodes[:-1], plan=WindowPlan(scales=SCALES))
    first = search(tmp_path)
    (table,), paths = tmp_path.rglob("timesteps.json"), [*tmp_path.rglob("timesteps-*.bin")]
    assert [path.name for path in (table, *sorted(paths))] == [
        "timesteps.json",
        *(f"timesteps-{n}.bin" for n in range(4)),
    ]
    monkeypatch.setattr(all_timesteps.LaneRows, "load", count)
    assert search(tmp_path) == first
    assert not read
    for path in (table, paths[0], paths[-1]):
        path.write_bytes(path.read_bytes()[:-9])
        read.clear()
        assert search(tmp_path) == first
        assert {*read} == {*range(11)}
    stored(tmp_path, episodes[-1:], plan=WindowPlan(scales=SCALES))
    read.clear()
    assert search(tmp_path, 1) == first[:1]
    assert 11 in read


def test_episodes_that_changed_or_are_gone_are_not_found_in_what_is_stored(tmp_path):
    rows = {number: one.astype(np.float32) for number, one in EPISODES.items()}

    def ingest(numbers):
        lanes = {number: {"state": Channel.of("state", rows[number])} for number in numbers}
        episodes = [Episode(str(number), "walk", len(rows[number]), observations=one) for number, one in lanes.items()]
        stored(tmp_path, episodes, plan=WindowPlan(scales=SCALES))

    def find(query):
        with TrajectoryRetriever(tmp_path) as retriever:
            hit = retriever.search_moments(query, 1)[0]
        return hit.episode_id, hit.span, hit.score

    ingest(rows)
    old, there = rows[4][20:40], rows[9][:50].copy()
    assert find(old) == ("4", (20, 40), 1.0)
    rows[4] = there[::-1].copy()
    ingest([4])
    assert find(rows[4][10:30]) == ("4", (10, 30), 1.0)
    assert find(old)[2] < 1.0
    (tmp_path / "episodes" / "9.wshard").unlink()
    assert find(there[10:30])[2] < 1.0
    with TrajectoryIngestor(tmp_path, ArcDct(damping=0.0)) as ingestor:
        ingestor.ingest(tmp_path / "episodes", windows=WindowPlan(scales=SCALES), prune=True)
    assert find(there[10:30])[2] < 1.0
    for number in (1, 2, 3, 5):  # more than a quarter: all is written anew
        rows[number] = rows[number][::-1].copy()
        ingest([number])
    assert find(rows[5][10:30]) == ("5", (10, 30), 1.0)
    assert find(rows[8][10:30]) == ("8", (10, 30), 1.0)


def test_an_ingest_of_many_episodes_stores_their_timesteps_and_one_more_is_added_at_the_end(tmp_path):
    rows = {number: np.random.default_rng(number).normal(size=(20, 5)).astype(np.float32) for number in range(41)}
    lanes = {number: {"state": Channel.of("state", one)} for number, one in rows.items()}
    episodes = [Episode(str(number), "walk", 20, observations=one) for number, one in lanes.items()]
    stored(tmp_path, episodes[:40], plan=WindowPlan(scales=SCALES))
    (path,) = tmp_path.rglob("timesteps-1.bin")
    content, number = path.read_bytes(), path.stat().st_ino

    def find(query):
        with TrajectoryRetriever(tmp_path) as retriever:
            best = retriever.search_moments(query, 1)[0]
        return best.episode_id, best.span, best.score

    assert find(rows[7][3:15]) == ("7", (3, 15), 1.0)
    assert path.read_bytes() == content
    stored(tmp_path, episodes[40:], plan=WindowPlan(scales=SCALES))
    assert find(rows[40][3:15]) == ("40", (3, 15), 1.0)
    assert path.read_bytes()[: len(content)] == content
    assert (path.stat().st_ino, path.stat().st_size) == (number, len(content) + 4 * rows[40].size)


def test_cells_are_stored_with_timesteps_and_made_anew_where_they_are_damaged_or_many_episodes_are_new(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(stored_cells, "WITHOUT_CELLS", 64)
    monkeypatch.setattr(cells, "_MEMBERS", 16)
    rows = {number: np.random.default_rng(number).normal(size=(30, 5)).astype(np.float32) for number in range(50)}
    lanes = {number: {"state": Channel.of("state", one)} for number, one in rows.items()}
    episodes = [Episode(str(number), "walk", 30, observations=one) for number, one in lanes.items()]
    stored(tmp_path, episodes[:40], plan=WindowPlan(scales=SCALES))
    (path,) = tmp_path.rglob("cells-of-blocks-2.bin")
    content = path.read_bytes()
    assert len(content) == 4 * 40 * len(range(0, 30 - 3, 2))

    def find(number):
        with TrajectoryRetriever(tmp_path) as retriever:
            hits = retriever.search_moments(rows[number][3:15], 1)
        assert (hits[0].episode_id, hits[0].span, hits[0].score) == (str(number), (3, 15), 1.0)
        return hits

    find(7)
    stored(tmp_path, episodes[40:42], plan=WindowPlan(scales=SCALES))
    find(41)
    assert path.read_bytes() == content
    path.write_bytes(content[::-1])
    find(7)
    assert len(path.read_bytes()) == len(content) // 40 * 42
    stored(tmp_path, episodes[42:], plan=WindowPlan(scales=SCALES))
    hits = find(49)
    assert (hits.exact, hits.answered.notes) == (True, ())
    assert len(path.read_bytes()) == len(content) // 40 * 50
    monkeypatch.setattr(cell_scan, "MOST", 0.01)
    monkeypatch.setattr(cell_scan, "_CELLS", 1)
    hits = find(49)
    assert (hits.exact, hits.answered.notes) == (False, (moment_search._SOME,))


def test_an_archive_too_large_to_be_scanned_says_that_not_all_was_compared(archive, monkeypatch):
    assert not search(archive).answered.notes
    monkeypatch.setattr(all_timesteps, "STORED", 0)
    monkeypatch.setattr(moment_search, "_EPISODES", 5)
    hits = search(archive)
    assert hits.answered.notes == (moment_search.NOT_ALL,)
    assert not hits.exact
