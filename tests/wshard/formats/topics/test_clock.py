"""Timesteps of recordings whose messages share stamps, as with simulated clocks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from mcap.writer import Writer

from wshard import TrajectoryIngestor, open_episode

STEP_NS = 100_000_000


def write_shared_stamps(path, per_stamp, stamps, note=None):
    """Write a topic with several messages at each stamp, and another with two at every second stamp."""
    rows = [(STEP_NS * at, "/state", {"q": at * per_stamp + one}) for at in range(stamps) for one in range(per_stamp)]
    rows += [(STEP_NS * at, "/other", {"p": 2 * at + one}) for at in range(0, stamps, 2) for one in range(2)]
    return write_rows(path, rows, note)


def write_rows(path, rows, note=None):
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("J", "jsonschema", b'{"type":"object"}')
        channels = {topic: writer.register_channel(topic, "json", schema) for topic in ("/state", "/other")}
        writer.add_metadata("run", note or {})
        for time, topic, message in rows:
            writer.add_message(channels[topic], log_time=time, publish_time=time, data=json.dumps(message).encode())
        writer.finish()
    return path


@pytest.mark.parametrize(("per_stamp", "stamps"), [(2, 4), (3, 5), (10, 1)])
def test_messages_of_the_clock_that_share_a_stamp_are_a_timestep_each(tmp_path, per_stamp, stamps):
    with open_episode(write_shared_stamps(tmp_path / "a.mcap", per_stamp, stamps)) as episode:
        steps = np.repeat(np.arange(stamps), per_stamp)
        assert episode["state/q"][:].tolist() == list(range(per_stamp * stamps))
        assert episode.lane("time/timestamps_ns").tolist() == (steps * STEP_NS).tolist()
        assert episode["other/p"][:].tolist() == (steps // 2 * 4 + 1).tolist()  # the latest of a stamp holds
        hz = 10 * (len(steps) - 1) / (stamps - 1) if stamps > 1 else 30.0
        assert episode.timebase.tick_hz == pytest.approx(hz, rel=1e-5)


@pytest.mark.parametrize(("text", "outcome"), [("true", True), ("False", False), ("0", False), ("perhaps", None)])
def test_success_in_metadata_is_the_outcome(tmp_path, text, outcome):
    with open_episode(write_shared_stamps(tmp_path / "a.mcap", 2, 3, {"success": text})) as episode:
        assert episode.metadata.get("success") is outcome


@pytest.mark.parametrize(
    ("others", "is_said"),
    [
        (range(20, 120, 2), True),  # most come when the clock has ended
        (range(-60, 40, 2), True),
        (range(-1, 41, 2), False),  # within a step of the clock
        (range(-1, 42, 1), False),  # a few around it
        (range(0, 20, 2), False),
        ((-900,), False),  # as of a description of the robot
    ],
)
def test_a_topic_of_which_the_clock_shows_little_is_named(tmp_path, others, is_said):
    rows = [(1000 * STEP_NS + STEP_NS * at // 2, "/state", {"q": at}) for at in range(80)]
    rows += [(1000 * STEP_NS + STEP_NS * at, "/other", {"p": at}) for at in others]
    path = write_rows(tmp_path / "a.mcap", sorted(rows, key=lambda row: row[0]))
    with open_episode(path) as episode:
        assert len(episode["state/q"]) == 80
        left_out = episode.metadata.get("left_out", {})
        assert ([*left_out], "--map TOPIC=clock" in str(left_out)) == (["/other"] * is_said, is_said)
    if is_said:
        with TrajectoryIngestor(tmp_path / "lab") as ingestor:
            (said,) = ingestor.ingest(path).left_out
        assert str(said).startswith("left out: /other (many of its messages come before or after those of the clock")
