"""The one error tree of the project.

Knows: every error class, what each one means, and which builtin a stranger would catch instead.
Does not know: who raises it. Messages say what was expected, what was found, and where (file, block, offset).

    WShardError
    ├── FormatError (ValueError)                the bytes do not follow the format
    │   ├── HeaderError                         magic, version, role, sizes, offsets in the 64-byte header
    │   ├── IndexCorruptError                   an index entry points outside the file, or names cannot be read
    │   ├── OverlapError                        two blocks claim the same bytes (damaged or interleaved recording)
    │   ├── LimitError                          a size above the security limits
    │   ├── ChecksumError                       CRC32C of a block, or SHA-256 of a chunk, differs from the stored one
    │   ├── CodecError                          a block cannot be decompressed to its stated size
    │   ├── LaneError                           meta JSON, dtype or shape of a lane is wrong
    │   ├── MetadataError                       the JSON section of a container is wrong
    │   ├── RepairError                         a damaged file of which nothing can be restored, and why
    │   └── ManifestError                       files that a manifest names are not what it says
    │       └── MissingFileError (FileNotFoundError)  a file that a manifest names is not there
    ├── EntryNotFoundError (KeyError)           no block of that name
    ├── StepError (IndexError)                  a timestep that a lane or an episode does not have
    ├── ClosedError (ValueError)                reading from a file after its close()
    ├── EpisodeError (ValueError)               an Episode value that cannot be saved
    ├── UnsupportedFormatError (NotImplementedError)  a known file format that this version cannot read or write
    ├── MissingExtraError (ImportError)         an optional dependency is not installed
    ├── HubError (OSError)                      an online repository of data sets refused, or could not be reached
    ├── RecordingStateError (RuntimeError)      calls of a writer in the wrong order
    ├── RecordingExistsError (FileExistsError)  an interrupted or running recording is in the way
    ├── EmbedderError (ValueError)              windows or parameters that an embedder cannot take
    │   ├── UnknownEmbedderError (KeyError)     no embedder of that name
    │   └── SpaceMismatchError                  vectors of two different Spaces would be mixed
    ├── CatalogError
    │   ├── CatalogNotFoundError (FileNotFoundError)
    │   ├── CatalogVersionError (RuntimeError)  the catalog was written by a newer version
    │   ├── CatalogBusyError (TimeoutError)     another process held the write lock for too long
    │   ├── CatalogUnreachableError (ConnectionError)  a database server that does not answer, or refuses the login
    │   ├── CatalogWriteError (OSError)         the database could not be written: disk full, read-only, ...
    │   ├── CatalogExistsError (FileExistsError)  a catalog, or another file, is in the way
    │   ├── VectorsDamagedError (ValueError)    vectors in the catalog that are not what was written there
    │   ├── FilterError (ValueError)            a filter names an unknown field, or compares the wrong type
    │   │   └── FilterSyntaxError               a filter written as text or URL has a mistake, at a position
    │   ├── CollectionError (ValueError)        picks, fractions or names of which no collection can be made
    │   └── StatementError (ValueError)         SQL text that is wrong, would write, or takes too long
    ├── IngestError (ValueError)                an episode that cannot be ingested
    │   ├── SourceNotFoundError (FileNotFoundError)
    │   ├── NoLaneError                         no lane of the episode fits the embedder
    │   └── NotFiniteError                      a lane to embed holds NaN, infinities or too large numbers
    ├── QualityError (ValueError)               limits of checks that are none
    ├── StaleEpisodeError (ValueError)          a file is not the one that was ingested
    ├── QueryError (ValueError)                 a query that fits no Space, or finds no vectors, or cannot be searched
    └── VectorIndexError (RuntimeError)         a vector index that cannot answer
        ├── UnknownIndexError (KeyError)        no index backend for that URL scheme
        ├── IndexUnreachableError (ConnectionError)  an index server that does not answer in time, or throttles
        ├── IndexAccessError (PermissionError)  an index server that wants another token
        ├── IndexRefusedError                   an index server that refused a request; says what it answered
        ├── IndexLostError (LookupError)        what was put into an index server is not there any more
        └── IndexDamagedError                   an index server that holds or answers what it should not

    FormatWarning (UserWarning)                 a known defect of an older writer that could be read around
    IndexWarning (UserWarning)                  a vector index that is behind the catalog, and will catch up
    NotEmbeddedWarning (UserWarning)            an episode that was catalogued without a vector
"""

from __future__ import annotations


class WShardError(Exception):
    """Base of every error that this project raises on purpose."""

    def __str__(self) -> str:
        """Return the plain message; KeyError would show it quoted."""
        return str(self.args[0]) if self.args else ""


class FormatWarning(UserWarning):
    """A known defect of an older writer that could be read around."""


class IndexWarning(UserWarning):
    """A vector index that is behind the catalog, and will catch up."""


class NotEmbeddedWarning(UserWarning):
    """An episode that was catalogued without a vector; the message says why no search will find it."""


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
    """A damaged file of which nothing can be restored; the message says why."""


class ManifestError(FormatError):
    """Files that a manifest names are not what it says: missing, doubled, out of order, changed or elsewhere."""


class MissingFileError(ManifestError, FileNotFoundError):
    """A file that a manifest names is not there; filename is its path."""


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


class MissingExtraError(WShardError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""


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
    """A filter names an unknown field or compares the wrong type."""


class FilterSyntaxError(FilterError):
    """A filter written as text or URL has a mistake; position counts the characters before it."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class CollectionError(CatalogError, ValueError):
    """Picks, fractions or names of which no collection can be made."""


class StatementError(CatalogError, ValueError):
    """SQL text that is wrong, would write, or takes too long."""


class IngestError(WShardError, ValueError):
    """An episode that cannot be ingested."""


class SourceNotFoundError(IngestError, FileNotFoundError):
    """A path to ingest does not exist, or holds no episodes."""


class NoLaneError(IngestError):
    """No lane of the episode fits the embedder."""


class QualityError(WShardError, ValueError):
    """Limits of quality checks that are none: an unknown name, a value that is no number > 0."""


class NotFiniteError(IngestError):
    """A lane to embed holds NaN, infinities, or numbers that float32 cannot hold."""


class StaleEpisodeError(WShardError, ValueError):
    """A file is not the one that was ingested."""


class QueryError(WShardError, ValueError):
    """A query that fits no Space, or finds no vectors, or that cannot be searched with."""


class VectorIndexError(WShardError, RuntimeError):
    """A vector index that cannot answer."""


class UnknownIndexError(VectorIndexError, KeyError):
    """No index backend for that URL scheme."""


class IndexUnreachableError(VectorIndexError, ConnectionError):
    """An index server that does not answer in time, is none, or throttles for too long; the catalog has the vectors."""


class IndexAccessError(VectorIndexError, PermissionError):
    """An index server that wants another token."""


class IndexRefusedError(VectorIndexError):
    """An index server that refused a request: status and text are its answer."""

    def __init__(self, message: str, status: int, text: str) -> None:
        super().__init__(message)
        self.status = status
        self.text = text


class IndexLostError(VectorIndexError, LookupError):
    """What was put into an index server is not there any more."""


class IndexDamagedError(VectorIndexError):
    """An index server that holds or answers what it should not: foreign collections, empty or senseless answers."""
