"""One image file per timestep, read on demand."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wshard.errors import LimitError, MissingFileError

if TYPE_CHECKING:
    from wshard.core.files.place import Place

MAX_IMAGE_SIZE: Final = 1 << 28


class ImageFiles(Sequence[bytes]):
    """The bytes of the image of each timestep; a subclass locates them. content: name of an image in messages."""

    content: ClassVar[str] = "image of timestep"

    def __init__(self, length: int) -> None:
        self._length = length

    @abstractmethod
    def place_of_step(self, step: int) -> Place:
        """Return the file of the image of a timestep, which may not exist."""

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, step: Any) -> Any:
        """Return the bytes of one image; raises MissingFileError, LimitError."""
        if not 0 <= step < self._length:
            raise IndexError(step)
        place = self.place_of_step(step)
        try:
            data = place.read(0, MAX_IMAGE_SIZE + 1)
        except FileNotFoundError:
            message = f"{place}: expected the {self.content} {step}, found no file"
            raise MissingFileError.at(place, message) from None
        if len(data) > MAX_IMAGE_SIZE:
            raise LimitError(f"{place}: expected an image of at most {MAX_IMAGE_SIZE} bytes")
        return data
