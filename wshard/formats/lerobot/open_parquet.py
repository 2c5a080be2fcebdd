"""Open Parquet files with pyarrow and translate its errors."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from wshard.core.messages import how_to_install
from wshard.errors import FormatError, LimitError, MissingExtraError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from wshard.core.files.place import Place

MAX_ROWS: Final = 1 << 22
"""Maximum number of episodes or tasks that a data set describes."""


def import_parquet() -> ModuleType:
    """Return pyarrow.parquet; raises MissingExtraError."""
    try:
        import pyarrow.parquet as module  # noqa: PLC0415  (an optional dependency)
    except ImportError as error:
        raise MissingExtraError(f"Parquet: expected to import pyarrow: {error}: {how_to_install('lerobot')}") from error
    parquet: ModuleType = module
    return parquet


@contextlib.contextmanager
def translate_errors(path: object, kind: str = "a Parquet file") -> Iterator[None]:
    """Translate errors of the library about data to FormatError; raise MissingFileError for a missing file.

    kind: what messages say was expected.
    """
    import_parquet()
    from pyarrow import ArrowException  # noqa: PLC0415  (as the module above)

    try:
        yield
    except FileNotFoundError:
        raise MissingFileError.at(path, f"{path}: expected {kind}, found none") from None
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise FormatError(f"{path}: expected {kind}: {str(error) or type(error).__name__}") from error


def count_row_groups(place: Place) -> int:
    """Return the number of row groups of a file; raises as translate_errors."""
    with translate_errors(place):
        count: int = import_parquet().read_metadata(place.path_or_file()).num_row_groups
        return count


def read_table(place: Place, columns: Sequence[str] | None = None, group: int | None = None) -> dict[str, Any]:
    """Return those of the columns that a small file has, None for all, as Arrow arrays; raises as translate_errors.

    group: the number of the row group to read, None for all. A file of a few bytes can claim any number of rows, so
    more than 4 million raise LimitError.
    """
    with translate_errors(place):
        file = import_parquet().ParquetFile(place.path_or_file())
        try:
            if (count := file.metadata.num_rows) > MAX_ROWS:
                raise LimitError(f"{place}: expected at most {MAX_ROWS} rows, found {count}")
            existing = file.schema_arrow.names
            names = existing if columns is None else [name for name in columns if name in existing]
            groups = range(file.num_row_groups) if group is None else [group]
            table = file.read_row_groups([*groups], columns=names, use_threads=False)
            return {name: table.column(name).combine_chunks() for name in names}
        finally:
            file.close()


def release_memory() -> None:
    """Give the memory back that Arrow keeps for what it reads next, where that will be less."""
    import pyarrow as pa  # noqa: PLC0415  (an optional dependency)

    pa.default_memory_pool().release_unused()
