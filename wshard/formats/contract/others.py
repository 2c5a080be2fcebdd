"""What a Sink of many episodes must do with files of others, as a test class."""

from __future__ import annotations

import pathlib
import threading
from typing import TYPE_CHECKING, Final

import pytest

from wshard.errors import WShardError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from wshard.core.container.draft import WriteMode

_NAMES: Final = ("notes of somebody.txt", "mine.npy", "mine.parquet", "my.wshard", "README.md")


def _plant(folder: Path, inside: Collection[Path]) -> dict[Path, str]:
    """Write files into a folder, folders below it and those of the data set; return their texts."""
    others = {}
    for place in {folder, folder / "mine", folder / "data" / "mine", *inside}:
        place.mkdir(parents=True, exist_ok=True)
        for name in _NAMES:
            others[place / name] = "mine"
    for path, text in others.items():
        path.write_text(text)
    return others


class OthersContract:
    """The tests of CollectionSinkContract about files of others, which stay whatever is written."""

    place = "set"

    def _write(self, folder: Path, *numbers: int, mode: WriteMode = "append") -> list[str]:
        raise NotImplementedError

    def _assert_there(self, folder: Path, *numbers: int) -> None:
        raise NotImplementedError

    def test_what_is_of_others_stays(self, tmp_path: Path) -> None:
        self._write(tmp_path, 0)
        place = tmp_path / self.place
        others = _plant(place if place.is_dir() else tmp_path, [path.parent for path in place.rglob("*")])
        self._write(tmp_path, 1)
        self._assert_there(tmp_path, 0, 1)
        self._write(tmp_path, 2, mode="overwrite")
        assert {path: path.read_text() for path in others} == others
        self._assert_there(tmp_path, 2)

    def test_what_others_add_meanwhile_stays(self, tmp_path: Path) -> None:
        self._write(tmp_path, 0)
        folder = tmp_path / self.place if (tmp_path / self.place).is_dir() else tmp_path
        added, ended = list[pathlib.Path](), threading.Event()

        def add() -> None:
            while not ended.wait(0.001):
                path = folder / f"note {len(added)}.txt"
                path.write_text("theirs")
                added.append(path)

        thread = threading.Thread(target=add)
        thread.start()
        try:
            while not added:
                ended.wait(0.001)
            self._write(tmp_path, 1, mode="overwrite")
        finally:
            ended.set()
            thread.join()
        assert {path.read_text() for path in added} == {"theirs"}
        self._assert_there(tmp_path, 1)

    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    def test_what_is_no_data_set_is_refused(self, tmp_path: Path, mode: WriteMode) -> None:
        self._write(tmp_path, 0)
        place = tmp_path / self.place
        is_folder = place.is_dir()
        place.rename(tmp_path / "elsewhere")
        if is_folder:
            place.mkdir()
        others = _plant(place, []) if is_folder else {place: "mine"}
        for path, text in others.items():
            path.write_text(text)
        with pytest.raises((WShardError, FileExistsError)):
            self._write(tmp_path, 1, mode=mode)
        assert {path: path.read_text() for path in others} == others
        assert {path.name for path in tmp_path.iterdir()} == {self.place, "elsewhere"}
