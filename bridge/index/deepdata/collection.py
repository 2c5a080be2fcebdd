"""A Space and its collection on the server, as used by every step of writing and checking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.index.deepdata.messages import schema
from wshard.errors import IndexDamagedError, IndexLostError

if TYPE_CHECKING:
    from bridge.index.deepdata.api_versions import Dialect
    from bridge.index.deepdata.messages import Collection
    from bridge.index.deepdata.settings import Settings
    from catalog.catalog import Catalog
    from catalog.vectors.index_copy_records import CopyRow
    from embedders.space import Space


@dataclass(frozen=True, eq=False)
class Link:
    """A catalog and the server that holds copies of it."""

    catalog: Catalog
    dialect: Dialect
    settings: Settings

    @property
    def place(self) -> str:
        """The name of this index in the ledger."""
        return self.settings.place + self.dialect.suffix


@dataclass(frozen=True, eq=False)
class Target:
    """One Space, its copy in the ledger, and its collection."""

    link: Link
    space: Space
    copy: CopyRow

    @property
    def name(self) -> str:
        """The name of the collection."""
        return collection_name(self.link, self.space.fingerprint)

    @property
    def size(self) -> int:
        """Bytes per vector in the ledger."""
        return 4 * self.space.dim


def collection_name(link: Link, fingerprint: str) -> str:
    """Return the name of a Space's collection: at most 54 characters, unique to the archive."""
    return f"{link.settings.prefix}-{link.catalog.archive_id.replace('-', '')[:12]}-{fingerprint[:24]}"


def create(target: Target) -> Collection:
    """Create the collection if it is missing, and return the server's description; foreign ones are refused."""
    space = target.space
    metadata = {
        "archive": target.link.catalog.archive_id,
        "space": space.fingerprint,
        "generation": target.copy.generation,
        "embedder": f"{space.embedder} {space.version}",
    }
    description = f"wshard archive, {space.embedder} vectors"
    target.link.dialect.create(schema(target.name, space.dim, description, metadata))
    collection = target.link.dialect.collection(target.name)
    if collection is None:
        raise IndexLostError(f"{target.link.settings.base}: the collection {target.name} was made and is not there")
    check(target, collection)
    return collection


def check(target: Target, collection: Collection) -> None:
    """Raise IndexDamagedError unless the collection is this copy: its archive, Space, generation and size."""
    link = target.link
    expected = {
        "archive": link.catalog.archive_id,
        "space": target.space.fingerprint,
        "generation": target.copy.generation,
        "dim": target.space.dim,
    }
    got = {
        "dim": collection.dim,
        **{name: collection.metadata.get(name) for name in ("archive", "space", "generation")},
    }
    for name, value in expected.items():
        if got[name] != value:
            raise IndexDamagedError(
                f"{link.settings.base}: expected the collection {target.name} with {name} {value}, found {got[name]}: "
                f"it was not created by this archive; `wshard index rebuild` replaces an older copy of this archive"
            )


def is_ours(target: Target, collection: Collection) -> bool:
    """Return whether this archive made the collection, in any generation."""
    return collection.metadata.get("archive") == target.link.catalog.archive_id
