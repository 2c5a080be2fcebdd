"""The errors of the project: messages say what was expected, what was found, and where."""

from __future__ import annotations

from shlex import quote


class WShardError(Exception):
    """Base of every error that this project raises on purpose."""

    def __init_subclass__(cls) -> None:
        """Let `cls.__new__` be that of the builtin error whose layout it has: libraries that copy errors call it."""
        cls.__new__ = cls.__base__.__new__  # type: ignore[method-assign]

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # KeyError would show it quoted


class FormatWarning(UserWarning):
    """What is read or written otherwise than expected: around a defect, without some values, at several rates."""


class GuessWarning(UserWarning):
    """A file of no known format was read by a guess, or is not read, since none is sure."""


class IndexWarning(UserWarning):
    """The vector index is behind the catalog, and will catch up."""


class NotEmbeddedWarning(UserWarning):
    """An episode was catalogued without a vector, so no search can find it; the message gives the reason."""


class SkippedEpisodeWarning(UserWarning):
    """Clips were left out of training data: their episode is missing, has changed or is damaged."""


class NoClipsWarning(UserWarning):
    """A data set without clips was opened: it is empty, or no episode is long enough."""


class FormatError(WShardError, ValueError):
    """The bytes do not follow the format."""


class HeaderError(FormatError):
    """The 64-byte header is wrong: magic, version, role, sizes or offsets."""


class IndexCorruptError(FormatError):
    """An index entry points outside the file, or a name cannot be read."""


class OverlapError(FormatError):
    """Two blocks claim the same bytes: a damaged file or an interleaved recording."""


class LimitError(FormatError):
    """A size above the security limits."""


class ChecksumError(FormatError):
    """The CRC32C of a block, or the SHA-256 of a chunk, differs from the stored one."""


class CodecError(FormatError):
    """A block cannot be decompressed to its stated size."""


class LaneError(FormatError):
    """Meta JSON, dtype or shape of a lane is wrong."""


class MetadataError(FormatError):
    """The JSON section of a container is wrong."""


class RepairError(FormatError):
    """Nothing can be restored from a damaged file; the message gives the reason."""


class ManifestError(FormatError):
    """Files listed by a manifest are missing, duplicated, out of order, changed or outside its folder."""


class MissingFileError(ManifestError, FileNotFoundError):
    """A file that a manifest, or a location of episodes, needs is not there; filename is its path."""

    @staticmethod
    def at(path: object, message: str) -> MissingFileError:
        """Return the error of this message for a file."""
        error = MissingFileError(message)
        error.filename = str(path)
        return error


class UnknownFormatError(FormatError, KeyError):
    """No episode format of that name."""


class AmbiguousFormatError(FormatError):
    """A location that fits several formats; the message names them."""


class LayoutError(FormatError):
    """The description of a layout is wrong, or does not fit the data."""


class ArrayKindError(FormatError):
    """An array that no lane can hold: pickled objects, records, lists of different lengths."""


class EntryNotFoundError(WShardError, KeyError):
    """No block of that name."""


class StepError(WShardError, IndexError):
    """A timestep that a lane or an episode does not have."""


class ClosedError(WShardError, ValueError):
    """Reading from a file after its close(), as Python's own files refuse it."""


class EpisodeError(WShardError, ValueError):
    """An Episode value that cannot be saved."""


class UnsupportedFormatError(WShardError, NotImplementedError):
    """A known file format that this version cannot read or write."""


class UnknownSchemeError(WShardError, ValueError):
    """A URI has an unsupported scheme; the message lists the supported ones."""


class MissingExtraError(WShardError, ImportError):
    """An optional dependency is not installed; the message names the extra that provides it."""


class ObjectStoreError(WShardError, OSError):
    """An object store cannot be reached, refuses or fails, or an object was replaced while it was read."""


class HubError(WShardError, OSError):
    """An online repository of data sets refused, or could not be reached."""


class RecordingStateError(WShardError, RuntimeError):
    """Calls of a writer in the wrong order."""


class RecordingExistsError(WShardError, FileExistsError):
    """An interrupted or running recording is in the way."""


class EmbedderError(WShardError, ValueError):
    """Windows or parameters that an embedder cannot take."""


class UnknownEmbedderError(EmbedderError, KeyError):
    """No embedder of that name."""


class SpaceMismatchError(EmbedderError):
    """Vectors of two different Spaces would be mixed."""


class CatalogError(WShardError):
    """Base of the catalog's errors."""


class CatalogNotFoundError(CatalogError, FileNotFoundError):
    """No catalog at that place."""


class CatalogVersionError(CatalogError, RuntimeError):
    """The catalog was written by a newer version of this software."""


class CatalogBusyError(CatalogError, TimeoutError):
    """Another process held the write lock for too long."""


class CatalogUnreachableError(CatalogError, ConnectionError):
    """A database server that does not answer, or refuses the login."""


class CatalogWriteError(CatalogError, OSError):
    """The database could not be written: disk full, read-only, I/O error."""


class CatalogExistsError(CatalogError, FileExistsError):
    """A catalog, or another file, is where a catalog or a backup should be written."""


class VectorsDamagedError(CatalogError, ValueError):
    """Vectors in the catalog that are not what was written there: their checksum is another one."""


class FilterError(CatalogError, ValueError):
    """A filter names an unknown field, which is `field` then, or compares the wrong type."""

    def __init__(self, message: str, position: int | None = None, *, field: str = "") -> None:
        super().__init__(message)
        self.position, self.field = position, field


class FilterSyntaxError(FilterError):
    """A filter written as text or URL has a mistake; position counts the characters before it."""


class CollectionError(CatalogError, ValueError):
    """Invalid picks, fractions or names of a collection."""


class StatementError(CatalogError, ValueError):
    """SQL text that is wrong, would write, or takes too long."""


class DatasetError(WShardError, ValueError):
    """Columns, lengths or options of training data are inconsistent; the message names the one at fault."""


class NoClipsError(WShardError, RuntimeError):
    """Clips were to be drawn where there are no episodes, or none is long enough."""


class IngestError(WShardError, ValueError):
    """An episode that cannot be ingested."""


class SourceNotFoundError(IngestError, FileNotFoundError):
    """A path to ingest does not exist, or holds no episodes."""


class NoLaneError(IngestError):
    """No lane of the episode fits the embedder."""


class QualityError(WShardError, ValueError):
    """Invalid quality-check limits: an unknown name, or a value that is not a number > 0."""


class NotFiniteError(IngestError):
    """A lane to embed holds NaN, infinities, or numbers that float32 cannot hold."""


class StaleEpisodeError(WShardError, ValueError):
    """A file has changed since it was ingested, or since a data set was made of it."""

    @staticmethod
    def at(address: object, uri: str) -> StaleEpisodeError:
        """Return the error for the episode of this address at a location."""
        return StaleEpisodeError(f"{address}: changed since it was ingested: run wshard ingest {quote(uri)}")


class QueryError(WShardError, ValueError):
    """A query that fits no Space, or finds no vectors, or that cannot be searched with."""


class RequestError(WShardError, ValueError):
    """A request to the browser app that is refused; status is that of the answer."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class VectorIndexError(WShardError, RuntimeError):
    """A vector index that cannot answer."""


class UnknownIndexError(VectorIndexError, KeyError):
    """No index backend for that URL scheme."""


class IndexUnreachableError(VectorIndexError, ConnectionError):
    """An index server that does not answer in time, is none, or throttles for too long; the catalog has the vectors."""


class IndexAccessError(VectorIndexError, PermissionError):
    """An index server rejects the token."""


class IndexRefusedError(VectorIndexError):
    """An index server that refused a request: status and text are its answer."""

    def __init__(self, message: str, status: int = 0, text: str = "") -> None:
        super().__init__(message)
        self.status, self.text = status, text


class IndexLostError(VectorIndexError, LookupError):
    """What was put into an index server is not there any more."""


class IndexDamagedError(VectorIndexError):
    """An index server has foreign collections, or sends empty or invalid responses."""
