"""A location whose files are unchanged is not listed again, and what an ingest does is the same as if it were."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bridge.episodes.locations import location_state
from wshard import convert_location, open_archive, save_wshard
from wshard.formats.base import open_sink
from wshard.testing import make_episode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bridge import IngestReport
    from bridge.archive import Archive

COUNT = 4


def write(place: Path, first: int, count: int) -> None:
    """Write or append episodes to a location."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open_sink(place, "lerobot") as sink:
        for number in range(first, first + count):
            sink.write(make_episode(number, 12))


def nothing(place: Path, lab: Archive) -> None:
    """Leave everything as it is."""


def append(place: Path, lab: Archive) -> None:
    """Add an episode."""
    write(place, COUNT, 1)


def touch(place: Path, lab: Archive) -> None:
    """Give a data file another time."""
    file = next(place.rglob("*.parquet"))
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 10**9))


def damage(place: Path, lab: Archive) -> None:
    """Cut a data file."""
    file = next((place / "data").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:100])


def remove_files(place: Path, lab: Archive) -> None:
    """Delete the location."""
    shutil.rmtree(place)


def forget_one(place: Path, lab: Archive) -> None:
    """Remove an episode from the catalog, not from the location."""
    lab.catalog.episodes.remove(lab.catalog.query.ids()[:1])


def forget_vectors(place: Path, lab: Archive) -> None:
    """Delete vectors of an episode."""
    lab.catalog.episodes.withdraw(lab.catalog.query.ids()[:1])


CHANGES = [nothing, append, touch, damage, remove_files, forget_one, forget_vectors]


def outcome(lab: Archive, place: Path) -> tuple[IngestReport, list[tuple[object, ...]]]:
    """Ingest again; return the report and what the catalog has then."""
    report = lab.ingest(place.parent)
    rows = [(row.address, row.digest, row.id) for row in lab.catalog.query.select().rows]
    vectors = [lab.catalog.vectors.embedded(space.id) for space in lab.catalog.vectors.live_spaces()]
    return replace(report, seconds=0.0), [*rows, *map(tuple, vectors)]


def forget_scans(lab: Archive) -> int:
    """Make the next ingest list every location; return how many it would not have listed."""
    with lab.catalog._session.write() as connection:
        return connection.exec_driver_sql("DELETE FROM scan").rowcount


@pytest.mark.parametrize("change", CHANGES)
def test_an_ingest_is_as_if_every_location_were_listed(change: Callable[[Path, Archive], None], tmp_path: Path) -> None:
    outcomes = []
    for name in ("listed", "unchanged"):
        place = tmp_path / name / "data" / "set"
        write(place, 0, COUNT)
        save_wshard(make_episode(9), place.parent / "single.wshard")
        with open_archive(tmp_path / name / "lab", create=True) as lab:
            assert lab.ingest(place.parent).new == COUNT + 1
            change(place, lab)
            if name == "listed":
                assert forget_scans(lab) == 1
            report, stored = outcome(lab, place)
            text = repr((report, stored)).replace(str(tmp_path / name), "")
            outcomes.append(text.split(", "))
    assert outcomes[0] == outcomes[1]


def test_what_is_unchanged_is_known_and_what_is_not_is_not(tmp_path: Path) -> None:
    place = tmp_path / "set"
    write(place, 0, COUNT)
    with open_archive(tmp_path / "lab", create=True) as lab:

        def known() -> bool:
            state = location_state(str(place), "lerobot")
            return state is not None and lab.catalog.episodes.unchanged_since(str(place), state) is not None

        assert not known()
        lab.ingest(place)
        assert known()
        for change in (append, touch):
            change(place, lab)
            assert not known()
            lab.ingest(place)
            assert known()
        assert lab.ingest(place).unchanged == COUNT + 1
        forget_one(place, lab)
        assert not known()
        assert lab.ingest(place).new == 1
        damage(place, lab)
        lab.ingest(place)
        assert not known()  # it failed, so it is read again each time


def test_a_single_file_and_links_are_listed_each_time(tmp_path: Path) -> None:
    write(tmp_path / "set", 0, 1)
    convert_location(tmp_path / "set", to=tmp_path / "one.hdf5")
    assert location_state(str(tmp_path / "one.hdf5"), "robomimic") is None
    assert location_state(str(tmp_path / "set"), "lerobot") is not None
    (tmp_path / "set" / "more").symlink_to(tmp_path)
    assert location_state(str(tmp_path / "set"), "lerobot") is None
