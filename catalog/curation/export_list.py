"""A collection as a list that other programs read: JSON, CSV, Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any, Final

from catalog.curation.selection import hash_of
from wshard.core.messages import how_to_install
from wshard.errors import CollectionError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog.curation.selection import Pick
    from catalog.records import EpisodeRow

COLUMNS: Final[Mapping[str, type]] = {
    "uid": str,
    "digest": str,
    "start": int,
    "stop": int,
    "weight": float,
    "path": str,
    "key": str,
    "episode_id": str,
    "env_id": str,
}
"""Column -> type. The last four are empty where the episode is missing or has changed by now."""

_PICKED: Final = ("uid", "digest", "start", "stop", "weight")

_BEYOND_ASCII: Final = re.compile(r"[^\n -~]")
FORMATS: Final = {"json": b'{\n "hash": ', "csv": b"uid,digest,", "parquet": b"PAR1"}
"""Format -> the first bytes of its files."""


def encode_list(picked: Sequence[tuple[Pick, EpisodeRow | None]], format_name: str) -> bytes:
    """Return the list in one of FORMATS. MissingExtraError without pyarrow, CollectionError for another format."""
    rows = [_row(pick, row) for pick, row in picked]
    if format_name == "json":
        document = {"hash": hash_of(pick for pick, _ in picked), "picks": rows}
        return _escaped(json.dumps(document, indent=1, ensure_ascii=False)).encode() + b"\n"
    if format_name == "csv":
        return _csv(rows)
    if format_name == "parquet":
        return _parquet(rows)
    raise CollectionError(f"expected a format among {', '.join(FORMATS)}, found {format_name!r}")


def _escaped(text: str) -> str:
    """Escape the control characters that JSON leaves unescaped, as a terminal may show the text."""
    return _BEYOND_ASCII.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text)


def _row(pick: Pick, row: EpisodeRow | None) -> dict[str, Any]:
    return {name: getattr(pick if name in _PICKED else row, name, None) for name in COLUMNS}


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    try:
        import pyarrow as pa  # noqa: PLC0415  (only this format needs it)
        import pyarrow.parquet as pq  # noqa: PLC0415  (as above)
    except ImportError as error:
        raise MissingExtraError(f"Parquet needs pyarrow: {how_to_install('parquet')}, or choose json or csv") from error
    arrow_types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    table = pa.table(
        {name: pa.array([row[name] for row in rows], arrow_types[type_]) for name, type_ in COLUMNS.items()}
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()
