"""Results of worker processes by way of files: a pipe takes 64 kB at a time, and each time waits for the other side."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class StoredResult(Generic[Result]):
    """A result that is in a file, or itself where there is no room for one."""

    path: str = ""
    result: Result | None = None

    def take(self) -> Result:
        """Return the result, once."""
        if not self.path:
            return cast("Result", self.result)
        file = Path(self.path)
        with file.open("rb") as stream:
            result: Result = pickle.load(stream)  # noqa: S301  (of a process of ours, in a folder of this user alone)
        file.unlink()
        return result


@dataclass(frozen=True)
class StoringResults(Generic[Item, Result]):
    """A function whose results are written to files of this folder."""

    function: Callable[[Sequence[Item]], Result]
    folder: str

    def __call__(self, batch: Sequence[Item]) -> StoredResult[Result]:
        """Return where the result is; itself if it cannot be written."""
        result = self.function(batch)
        try:
            with NamedTemporaryFile(dir=self.folder, delete=False) as file:
                try:
                    pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)
                except BaseException:
                    Path(file.name).unlink()
                    raise
        except OSError:
            return StoredResult(result=result)
        return StoredResult(file.name)
