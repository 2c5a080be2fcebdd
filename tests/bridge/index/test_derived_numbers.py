"""Derived numbers come back exactly, for the state that they were computed from, or not at all."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from bridge.index.derived_numbers import FILE, DerivedNumbers

STATE = (230, 4_611_686_018_427_387_904)
NUMBERS = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 2.0**-16]


def test_numbers_come_back_to_the_last_bit_by_their_names(tmp_path):
    DerivedNumbers(tmp_path, STATE).write("weights", NUMBERS)
    DerivedNumbers(tmp_path, STATE).write("sample", [3, 7])
    derived = DerivedNumbers(tmp_path, STATE)
    assert [number.hex() for number in derived.read("weights")] == [number.hex() for number in NUMBERS]
    assert (derived.read("sample"), derived.read("others")) == ([3, 7], None)


@pytest.mark.parametrize("state", [(231, STATE[1]), (230, STATE[1] + 1)])
def test_numbers_of_another_state_are_not_read_and_give_way(tmp_path, state):
    DerivedNumbers(tmp_path, STATE).write("weights", NUMBERS)
    DerivedNumbers(tmp_path, STATE).write("sample", [3])
    later = DerivedNumbers(tmp_path, state)
    assert later.read("weights") is None
    later.write("weights", [1.0])
    assert (later.read("weights"), later.read("sample")) == ([1.0], None)
    assert DerivedNumbers(tmp_path, STATE).read("weights") is None


def test_damaged_files_read_as_empty_and_are_written_anew(tmp_path):
    derived, random = DerivedNumbers(tmp_path, STATE), Random(0)
    derived.write("weights", NUMBERS)
    whole = (tmp_path / FILE).read_bytes()
    damages = [whole[:place] for place in range(len(whole))]
    flips = [divmod(place, 8) for place in random.sample(range(8 * len(whole)), 400)]
    damages += [whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :] for place, bit in flips]
    damages += [b"[]", b'{"checksum": 0, "text": 5}', b"[" * 100_000, bytes(64)]
    for damage in damages:
        (tmp_path / FILE).write_bytes(damage)
        assert derived.read("weights") is None
    derived.write("weights", NUMBERS)
    assert derived.read("weights") == NUMBERS


def test_where_nothing_can_be_written_nothing_is_stored(tmp_path):
    (tmp_path / FILE).mkdir()
    for folder in (tmp_path, Path("/dev/null")):
        derived = DerivedNumbers(folder, STATE)
        derived.write("weights", NUMBERS)
        assert derived.read("weights") is None
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
