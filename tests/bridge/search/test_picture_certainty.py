"""Questions by picture: hits do not depend on how many are wanted, and are exact only after a look at every frame."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import command, ingest

from wshard import Channel, Episode, TrajectoryRetriever, save_wshard
from wshard.core.types import TimebaseSpec

STEPS, RATE, NUMBER = 300, 20.0, 8
PARTLY = "approximate: 2 frames a second compared (stride 0: all)"


def camera(number):
    """Return uint8 [300, 12, 16, 3]: a spot before a wall that all have, which wanders, and jumps back and forth."""
    rng = np.random.default_rng(number)
    y, x = np.mgrid[:12, :16]
    steps = np.arange(STEPS)
    across = 8 + 6 * np.sin(steps / rng.uniform(4, 9) + number)
    down = 6 + 4 * np.cos(steps / rng.uniform(3, 8))
    spot = np.exp(-((y - down[:, None, None]) ** 2 + (x - across[:, None, None]) ** 2) / 4)
    wall = np.random.default_rng(99).integers(60, 120, (12, 16, 3))
    return np.clip(wall + 120 * spot[..., None], 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certainty")
    for number in range(NUMBER):
        state = np.cumsum(np.random.default_rng(number).normal(size=(STEPS, 2)), axis=0).astype(np.float32)
        observations = {
            "robot/top": Channel.of("robot/top", camera(number)),
            "robot/side": Channel.of("robot/side", camera(number + 50)),
            "state": Channel.of("state", state),
        }
        timebase = TimebaseSpec(tick_hz=RATE)
        episode = Episode(f"ep-{number}", "wall", STEPS, observations=observations, timebase=timebase)
        save_wshard(episode, folder / f"{number}.wshard")
    ingest(folder / "archive", folder, windows="whole")
    return folder / "archive"


def found(hits):
    return [(hit.episode_id, hit.span, hit.seen, round(hit.score, 5)) for hit in hits]


EPISODES, MOMENTS = "search_similar_episodes", "search_moments"
KINDS = [
    (EPISODES, {"exclude_self": True}),
    (EPISODES, {"query_obs": "ep-5"}),
    (EPISODES, {"where": "episode:ep-1"}),
    (EPISODES, {"min_score": 0.9, "exclude_self": True}),
    (EPISODES, {"like": ["ep-5#top@77"], "unlike": ["ep-3#side@61"]}),
    (MOMENTS, {"stride": 2}),
    (MOMENTS, {"per_episode": 1}),
    (MOMENTS, {"where": "episode:ep-1"}),
]


@pytest.mark.parametrize(("verb", "options"), KINDS, ids=lambda one: " ".join(one) if isinstance(one, dict) else one)
def test_fewer_hits_are_the_first_of_more_and_exact_ones_those_of_a_full_scan(archive, verb, options):
    with TrajectoryRetriever(archive) as retriever:
        for image in ("ep-2#top@33",) if verb == EPISODES else ("ep-6#side@154",):
            ask = {"image": image, **options}
            hits = getattr(retriever, verb)(top_k=NUMBER, **ask)
            full = getattr(retriever, verb)(top_k=NUMBER, **{**ask, "stride": 0})
            assert hits
            for count in (1, 2, 5):
                fewer = getattr(retriever, verb)(top_k=count, **ask)
                assert found(fewer) == found(hits)[:count]
                assert (fewer.exact, fewer.certainty) == (hits.exact, hits.certainty)
            assert full.exact
            assert full.certainty == "exact"
            assert not hits.exact or found(hits) == found(full)
            assert hits.exact == ("where" in options)


def test_the_best_frame_of_a_full_scan_is_found_between_those_described(archive):
    rng = np.random.default_rng(0)
    with TrajectoryRetriever(archive) as retriever:
        questions = [f"ep-{rng.integers(NUMBER)}#top@{rng.integers(STEPS)}" for _ in range(20)]
        pairs = [
            [retriever.search(one, 1, exclude_self=True, stride=stride)[0].score for stride in (None, 0)]
            for one in questions
        ]
    assert sum(some == pytest.approx(best) for some, best in pairs) >= 12
    assert all(some <= best + 1e-6 for some, best in pairs)


def test_one_episode_is_compared_as_a_whole(archive):
    with TrajectoryRetriever(archive, lanes="robot/top") as retriever:
        hits = retriever.search_moments(image="ep-2#top@33", where="episode:ep-2")
        assert hits.certainty == "exact"
        assert found(hits) == found(retriever.search_moments(image="ep-2#top@33", where="episode:ep-2", stride=0))


def test_the_command_says_how_many_frames_were_compared(archive, tmp_path):
    for verb in ("search", "moments"):
        ask = (verb, "--image", "ep-2#side@33", "--archive", archive)
        assert f", {PARTLY}, " in command(*ask, folder=tmp_path).stdout
        assert f'"certainty": "{PARTLY}"' in command(*ask, "--json", folder=tmp_path).stdout
        assert "a frame every 2 s compared" in command(*ask, "--stride", "2", folder=tmp_path).stdout
        assert ", exact, " in command(*ask, "--stride", "0", folder=tmp_path).stdout
