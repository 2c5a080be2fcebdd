"""Images in files of their own: read on use, within bounds, with typed errors."""

from __future__ import annotations

import pytest

from wshard.core.files.schemes import place_of
from wshard.core.media.image_files import ImageFiles
from wshard.errors import LimitError, MissingFileError
from wshard.media import image_files


class Numbered(ImageFiles):
    def __init__(self, folder, length) -> None:
        super().__init__(length)
        self._folder = folder

    def place_of_step(self, step):
        return place_of(self._folder / f"{step}.png")


def test_images_are_the_bytes_of_their_files(tmp_path):
    for step in range(3):
        (tmp_path / f"{step}.png").write_bytes(bytes([step]))
    assert list(Numbered(tmp_path, 3)) == [b"\0", b"\1", b"\2"]
    for step in (-1, 3):
        with pytest.raises(IndexError):
            Numbered(tmp_path, 3)[step]


def test_a_missing_and_a_huge_image_are_refused(tmp_path, monkeypatch):
    with pytest.raises(MissingFileError, match=r"1\.png: expected the image of timestep 1, found no file") as caught:
        Numbered(tmp_path, 2)[1]
    assert caught.value.filename == str(tmp_path / "1.png")
    (tmp_path / "0.png").write_bytes(bytes(10))
    monkeypatch.setattr(image_files, "MAX_IMAGE_SIZE", 9)
    with pytest.raises(LimitError, match="at most 9 bytes"):
        Numbered(tmp_path, 2)[0]
