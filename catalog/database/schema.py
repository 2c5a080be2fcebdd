"""The tables, as SCHEMA.md explains them."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
)

from catalog.database.column_types import BIG, TEXT, NumberArray
from catalog.database.sql_functions import index_json
from catalog.database.text_search import index_words

metadata = MetaData()

migration = Table(
    "migration",
    metadata,
    Column("version", BIG, primary_key=True, autoincrement=False),
    Column("name", TEXT, nullable=False),
    Column("applied_at", TEXT, nullable=False),
)

archive = Table(
    "archive",
    metadata,
    Column("archive_id", TEXT, primary_key=True),
    Column("clock", BIG, nullable=False),
    Column("last_episode", BIG, nullable=False),
    Column("edition", TEXT),
)

root = Table(
    "root",
    metadata,
    Column("id", BIG, primary_key=True),
    Column("place", TEXT, nullable=False),
    Column("inside", Boolean, nullable=False),
    UniqueConstraint("inside", "place"),
)

layout = Table(
    "layout",
    metadata,
    Column("id", BIG, primary_key=True),
    Column("definition", TEXT, nullable=False, unique=True),
)

episode = Table(
    "episode",
    metadata,
    Column("id", BIG, primary_key=True, autoincrement=False),
    Column("uid", TEXT, nullable=False),
    Column("root_id", BIG, ForeignKey("root.id"), nullable=False),
    *(Column(name, TEXT, nullable=False) for name in ("path", "key", "format", "lane_map", "episode_id", "env_id")),
    Column("length", BIG, nullable=False),
    Column("total_reward", Double),
    Column("success", Boolean),
    Column("digest", TEXT, nullable=False),
    Column("size", BIG, nullable=False),
    Column("mtime_ns", BIG, nullable=False),
    Column("metadata", TEXT, nullable=False),
    Column("layout_id", BIG, ForeignKey("layout.id"), nullable=False),
    Column("ingested_at", TEXT, nullable=False),
    Column("sort_key", TEXT, nullable=False, server_default=""),
)
index_json(episode.c.metadata)
# Indexes instead of constraints, as SQLite can create them after a bulk load.
Index("episode_uid", episode.c.uid, unique=True)
Index("episode_place", episode.c.root_id, episode.c.path, episode.c.key, unique=True)
Index("episode_digest", episode.c.digest)
Index("episode_layout", episode.c.layout_id, episode.c.id)


_ID, _ENV, _REWARD, _LENGTH = (episode.c[name] for name in ("id", "env_id", "total_reward", "length"))
# In the order of pages: by a column, then by id.
Index("episode_env_reward_length", _ENV, _REWARD, _ID, _LENGTH)
Index("episode_env_length", _ENV, _LENGTH, _ID)
Index("episode_reward_env", _REWARD, _ID, _ENV)
Index("episode_length", _LENGTH, _ID)
Index("episode_success", episode.c.success, _ID)
Index("episode_format", episode.c.format, _ID)
Index("episode_episode_id", episode.c.episode_id, _ID)
Index("episode_sort_key", episode.c.sort_key, _ID)

lane = Table(
    "lane",
    metadata,
    Column("episode_row", BIG, ForeignKey("episode.id"), primary_key=True),
    Column("name", TEXT, primary_key=True),
    Column("count", BIG, nullable=False),
    Column("spread", NumberArray),
    Column("rate", Double),
    Column("codec", TEXT),
    Column("bytes", BIG),
    Column("stored", BIG),
)

# Only of episodes that consist of several files; those of a single file are in the table episode.
asset = Table(
    "asset",
    metadata,
    Column("episode_row", BIG, ForeignKey("episode.id"), primary_key=True, autoincrement=False),
    Column("position", BIG, primary_key=True, autoincrement=False),
    Column("role", TEXT, nullable=False),
    Column("path", TEXT, nullable=False),
    Column("digest", TEXT, nullable=False),
    Column("size", BIG, nullable=False),
    Column("mtime_ns", BIG, nullable=False),
)
Index("asset_role", asset.c.role, asset.c.episode_row)

# How a location looked whose episodes are all catalogued as they are: an ingest need not list them again.
scan = Table(
    "scan",
    metadata,
    Column("root_id", BIG, ForeignKey("root.id"), primary_key=True, autoincrement=False),
    Column("path", TEXT, primary_key=True),
    Column("state", TEXT, nullable=False),
)

tag = Table(
    "tag",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("episode_row", BIG, ForeignKey("episode.id"), primary_key=True),
)
Index("tag_episode", tag.c.episode_row, tag.c.name)

space = Table(
    "space",
    metadata,
    Column("id", BIG, primary_key=True),
    Column("fingerprint", TEXT, nullable=False, unique=True),
    Column("family", TEXT, nullable=False),
    Column("state", TEXT, nullable=False),
    Column("definition", TEXT, nullable=False),
    Column("checked_seq", BIG, nullable=False),
    CheckConstraint("state IN ('building', 'active', 'retired')", name="space_state"),
)

# No foreign key to episode: a tombstone outlives its episode.
embedding = Table(
    "embedding",
    metadata,
    Column("seq", BIG, primary_key=True, autoincrement=False),
    Column("space_id", BIG, ForeignKey("space.id"), nullable=False),
    Column("episode_row", BIG, nullable=False),
    Column("digest", TEXT),
    *(Column(name, BIG) for name in ("count", "checksum")),
    Column("vectors", LargeBinary),
    # One row per episode and space: the digest is there so that looking for pending episodes never touches vectors.
    UniqueConstraint("episode_row", "space_id", "digest"),
)
Index("embedding_space_seq", *(embedding.c[name] for name in ("space_id", "seq", "count", "episode_row", "checksum")))

document = Table(
    "document",
    metadata,
    Column("episode_row", BIG, ForeignKey("episode.id"), primary_key=True, autoincrement=False),
    Column("words", TEXT, nullable=False),
)
index_words(document.c.words, document.c.episode_row)

note = Table(
    "note",
    metadata,
    Column("id", BIG, primary_key=True),
    Column("episode_row", BIG, ForeignKey("episode.id"), nullable=False),
    *(Column(name, TEXT, nullable=False) for name in ("text", "who", "at")),
    Column("removed_at", TEXT),
)
Index("note_episode", note.c.episode_row, note.c.removed_at)

review = Table(
    "review",
    metadata,
    Column("id", BIG, primary_key=True),
    Column("episode_row", BIG, ForeignKey("episode.id"), nullable=False),
    Column("state", TEXT),
    *(Column(name, TEXT, nullable=False) for name in ("who", "at")),
    Column("undoes", BIG, ForeignKey("review.id")),
)
Index("review_episode", review.c.episode_row, review.c.id)
Index("review_state", review.c.state, review.c.episode_row, review.c.id)
Index("review_undoes", review.c.undoes)

score = Table(
    "score",
    metadata,
    Column("episode_row", BIG, ForeignKey("episode.id"), primary_key=True),
    Column("name", TEXT, primary_key=True),
    Column("value", Double, nullable=False),
)
Index("score_name_value", score.c.name, score.c.value, score.c.episode_row)

# Checked episodes and the version of the checks; measures of those that define what is normal in their family.
checked = Table(
    "checked",
    metadata,
    Column("episode_row", BIG, ForeignKey("episode.id"), primary_key=True, autoincrement=False),
    Column("version", TEXT, nullable=False),
    Column("family", TEXT, nullable=False),
    Column("measures", LargeBinary),
)
Index("checked_family", checked.c.family, checked.c.episode_row, sqlite_where=checked.c.measures.is_not(None))

finding = Table(
    "finding",
    metadata,
    Column("episode_row", BIG, ForeignKey("episode.id"), primary_key=True),
    Column("name", TEXT, primary_key=True),
    Column("reason", TEXT, nullable=False),
)
Index("finding_name", finding.c.name, finding.c.episode_row)

lineage = Table(
    "lineage",
    metadata,
    Column("episode_row", BIG, ForeignKey("episode.id"), primary_key=True),
    *(Column(name, TEXT, primary_key=True) for name in ("relation", "source")),
)
Index("lineage_source", lineage.c.relation, lineage.c.source, lineage.c.episode_row)

snapshot = Table(
    "snapshot",
    metadata,
    Column("id", BIG, primary_key=True),
    Column("hash", TEXT, nullable=False, unique=True),
    Column("origin", TEXT, nullable=False),
    Column("picks", BIG, nullable=False),
    Column("made_at", TEXT, nullable=False),
)

# No foreign key to episode: a snapshot never changes, even if one of its episodes is removed.
pick = Table(
    "pick",
    metadata,
    Column("snapshot_id", BIG, ForeignKey("snapshot.id"), primary_key=True),
    Column("position", BIG, primary_key=True, autoincrement=False),
    Column("episode_row", BIG, nullable=False),
    *(Column(name, TEXT, nullable=False) for name in ("uid", "digest")),
    *(Column(name, BIG, nullable=False) for name in ("start", "stop")),
    Column("weight", Double, nullable=False),
)
Index("pick_episode", pick.c.episode_row, pick.c.snapshot_id)

collection = Table(
    "collection",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("query", TEXT),
    Column("snapshot_id", BIG, ForeignKey("snapshot.id")),
    *(Column(name, TEXT, nullable=False) for name in ("who", "at")),
    CheckConstraint("(query IS NULL) <> (snapshot_id IS NULL)", name="collection_kind"),
)
Index("collection_snapshot", collection.c.snapshot_id)

# Which vectors an index outside of the archive holds, and under which numbers.
index_copy = Table(
    "index_copy",
    metadata,
    Column("id", BIG, primary_key=True),
    Column("place", TEXT, nullable=False),
    Column("space_id", BIG, ForeignKey("space.id"), nullable=False),
    Column("generation", TEXT, nullable=False),
    Column("version", BIG, nullable=False),
    Column("damaged", Boolean, nullable=False),
    Column("removed", BIG, nullable=False),
    UniqueConstraint("place", "space_id"),
)

# No foreign key to embedding: the vectors of a replaced row must be removed from the index before its row here.
synced = Table(
    "synced",
    metadata,
    Column("copy_id", BIG, ForeignKey("index_copy.id"), primary_key=True),
    Column("seq", BIG, primary_key=True, autoincrement=False),
    Column("position", BIG, primary_key=True, autoincrement=False),
    *(Column(name, TEXT, nullable=False) for name in ("ref", "about")),
    Column("document", BIG),
    Column("served", Boolean, nullable=False),
    Column("run", TEXT),
)
Index("synced_document", synced.c.copy_id, synced.c.document)
Index("synced_ref", synced.c.copy_id, synced.c.ref)
Index("synced_unserved", synced.c.copy_id, synced.c.seq, sqlite_where=synced.c.served.is_(False))
Index("synced_run", synced.c.copy_id, synced.c.run, sqlite_where=synced.c.run.is_not(None))
