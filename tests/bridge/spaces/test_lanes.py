"""Which lanes are numbers, and which are images: every lane of bytes is one of both."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save

from bridge.spaces.lanes import is_vector
from catalog.records import LaneDefinition
from wshard import Channel, TrajectoryRetriever


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        *(((7, 7, 3), True), ((8, 8), True), ((3, 7, 7), True), ((64, 4), True), ((5, 15, 3), True)),
        *(((16, 16, 3), False), ((16, 16), False), ((3, 16, 16), False), ((1, 1100), False)),
    ],
)
def test_bytes_are_numbers_unless_two_axes_are_as_long_as_those_of_an_image(shape, expected):
    assert is_vector(LaneDefinition("signal/grid", "u8", shape)) is expected


def test_episodes_of_a_grid_world_are_found_by_their_cells(tmp_path):
    for number in range(4):
        cells = np.zeros((40, 7, 7, 3), np.uint8)
        places = np.arange(40) // 4 % 7
        cells[np.arange(40), *((places, 3) if number % 2 else (3, places))] = (8, 1, number)
        lanes = {"image": Channel.of("image", cells)}
        save(tmp_path / "data", episode(number % 2, number, 40, id=f"grid-{number}", observations=lanes))
    assert ingest(tmp_path / "archive", tmp_path / "data").embedded == 4
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        hits = retriever.search_similar_episodes("grid-0", 4, plain=True)
        assert [hit.episode_id for hit in hits][:2] == ["grid-0", "grid-2"]
