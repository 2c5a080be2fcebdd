"""SQLite files of ROS 2 bags as logs of messages; they are opened for reading, and only their own tables are read."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np

from wshard.errors import FormatError
from wshard.formats.topics.message_log import MAX_MESSAGE_SIZE, Topic, group_topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wshard.core.files.place import Place

SIGNATURE: Final = b"SQLite format 3\0"
_NEEDED: Final = frozenset({"topics", "messages"})


class SqliteLog:
    """An open .db3 file. distribution: that of ROS 2 which recorded it, where the file does not say it."""

    def __init__(self, place: Place, distribution: str = "") -> None:
        self.where = str(place)
        self._distribution = distribution
        self.notes: dict[str, Any] = {}
        self._rows: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        if place.read(0, len(SIGNATURE)) != SIGNATURE:
            raise FormatError(f"{self.where}: expected an SQLite file, found other first bytes")
        with self._translate():
            address = f"file:{quote(place.local_path())}?mode=ro&immutable=1"
            self._base = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            with self._translate():
                self._base.execute("PRAGMA trusted_schema = OFF")
                self._base.execute("PRAGMA cell_size_check = ON")
                self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_MESSAGE_SIZE)
                self._read_topics()
        except BaseException:
            self._base.close()
            raise

    def _read_topics(self) -> None:
        tables = {
            name
            for name, kind, text in self._base.execute("SELECT name, type, sql FROM sqlite_master")
            if kind == "table" and str(text).upper().startswith("CREATE TABLE")
        }
        if not tables >= _NEEDED:
            raise FormatError(f"{self.where}: expected the tables topics and messages, found {sorted(tables)[:20]}")
        definitions, distribution = {}, self._distribution
        if "message_definitions" in tables:
            query = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
            definitions = {str(kind): (str(encoding), str(text)) for kind, encoding, text in self._base.execute(query)}
        if "schema" in tables:
            row = self._base.execute("SELECT ros_distro FROM schema").fetchone()
            distribution = str(row[0]) if row else distribution
        found: dict[int, Topic] = {}
        for number, name, kind, encoding in self._base.execute(
            "SELECT id, name, type, serialization_format FROM topics"
        ):
            schema_encoding, text = definitions.get(str(kind), ("", ""))
            found[int(number)] = Topic(
                str(name), str(kind), str(encoding), schema_encoding, text.encode(), distribution
            )
        self.topics, self.left_out, self._numbers = group_topics(found)

    def stamps(self, topic: str) -> NDArray[np.int64]:
        """Return when each message of a topic was recorded."""
        return self._order(topic)[0]

    def read(self, topic: str, number: int) -> bytes:
        """Return the bytes of a message; raises FormatError."""
        with self._translate():
            row = self._base.execute("SELECT data FROM messages WHERE id = ?", (int(self._order(topic)[1][number]),))
            data = row.fetchone()[0]
        if not isinstance(data, bytes):
            found = type(data).__name__
            raise FormatError(f"{self.where}: topic {topic!r}: message {number}: expected bytes, found {found}")
        return data

    def _order(self, topic: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if topic not in self._rows:
            query = "SELECT timestamp, id FROM messages WHERE topic_id = ?"
            with self._translate():
                rows = [row for number in self._numbers[topic] for row in self._base.execute(query, (number,))]
                table = np.array(sorted(rows), np.int64)
            stamps, numbers = table.reshape(-1, 2).T
            self._rows[topic] = (stamps, numbers)
        return self._rows[topic]

    @contextlib.contextmanager
    def _translate(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{self.where}: expected the SQLite file of a bag: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._base.close()
