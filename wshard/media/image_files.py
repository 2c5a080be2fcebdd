"""One image file per timestep, read on demand."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wshard.container.open_file import open_file
from wshard.errors import LimitError, MissingFileError

if TYPE_CHECKING:
    import os

MAX_IMAGE_SIZE: Final = 1 << 28


class ImageFiles(Sequence[bytes]):
    """The bytes of the image of each timestep; a subclass locates them. content: name of an image in messages."""

    content: ClassVar[str] = "image of timestep"

    def __init__(self, length: int) -> None:
        self._length = length

    @abstractmethod
    def path_of(self, step: int) -> str | os.PathLike[str]:
        """Return the path of the image of a timestep, which may not exist."""

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, step: Any) -> Any:
        """Return the bytes of one image; raises MissingFileError, LimitError."""
        if not 0 <= step < self._length:
            raise IndexError(step)
        path = self.path_of(step)
        try:
            with open_file(path) as file:
                data = file.read(MAX_IMAGE_SIZE + 1)
        except FileNotFoundError:
            message = f"{path}: expected the {self.content} {step}, found no file"
            raise MissingFileError.at(path, message) from None
        if len(data) > MAX_IMAGE_SIZE:
            raise LimitError(f"{path}: expected an image of at most {MAX_IMAGE_SIZE} bytes")
        return data
