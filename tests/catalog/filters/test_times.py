"""Times in filters: zones count, a bare day means all of it, and what is no time is refused; in every evaluation."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import Catalog, F, matches, parse_where, where_text
from catalog.curation.annotations_json import VERSION
from catalog.filters.times import bounds_of, normal_time, span_of
from catalog.testing.contract import make_record
from wshard.errors import FilterError

if TYPE_CHECKING:
    from pathlib import Path

TOKYO = timezone(timedelta(hours=9))
REVIEWED = ("2026-11-27T14:59:59", "2026-11-27T15:00:00", "2026-11-27T23:59:59", "2026-11-28T00:00:00")
"""Reviews of episodes 1 to 4, in UTC: the second is midnight in Tokyo."""

FIRST, LAST = map(datetime.fromisoformat, ("0001-01-03", "9999-12-28"))

CASES = {
    "reviewed_at:2026-11-27": [1, 2, 3],
    "reviewed_at:..2026-11-27": [1, 2, 3],
    "reviewed_at:<=2026-11-27": [1, 2, 3],
    "reviewed_at:>2026-11-27": [4],
    "reviewed_at:>=2026-11-27": [1, 2, 3, 4],
    "reviewed_at:<2026-11-28": [1, 2, 3],
    "reviewed_at:!=2026-11-27": [4],
    "reviewed_at:2026-11-27..2026-11-28": [1, 2, 3, 4],
    "reviewed_at:2026-11-28+09:00": [2, 3, 4],
    "reviewed_at:>2026-11-27T23:59:59+09:00": [2, 3, 4],
    "reviewed_at:>=2026-11-28T00:00+09:00": [2, 3, 4],
    "reviewed_at:2026-11-27T23:59": [3],
    "reviewed_at:2026-11-27T15:00:00Z": [2],
    "reviewed_at:2026-11-27T15:00:00.5Z": [],
    "reviewed_at:2026-11": [1, 2, 3, 4],
    "reviewed_at:2026": [1, 2, 3, 4],
    "reviewed_at:2025,2026-11-28": [4],
    "reviewed_at:..9999": [1, 2, 3, 4],
    "reviewed_at:>9999": [],
    "-reviewed_at:2026-11-27": [4, 5],
    "reviewed_at:*": [1, 2, 3, 4],
    "reviewed_at:2026-11-28*": [4],
}


def test_databases_and_python_agree_on_times(location: Path | str) -> None:
    with Catalog.open(location, create=True) as catalog:
        catalog.episodes.register([make_record(number) for number in range(5)])
        document = {"version": VERSION, "collections": [], "episodes": []}
        for number, time in enumerate(REVIEWED):
            at = datetime.fromisoformat(time).replace(tzinfo=UTC).astimezone(TOKYO).isoformat()  # stored as UTC
            record = make_record(number)
            keys = {"digest": record.digest, "path": record.path, "key": record.key, "episode_id": record.episode_id}
            review = {"state": "accepted", "who": "ann", "at": at, "undoes": None}
            empty = {"tags": [], "notes": [], "scores": {}}
            document["episodes"].append({**keys, **empty, "reviews": [review]})
        catalog.annotations.import_json(json.dumps(document))
        rows = catalog.query.select(order="id").rows
        facts = catalog.query.facts([row.id for row in rows])
        for text, expected in CASES.items():
            where = parse_where(text)
            assert catalog.query.ids(where) == expected, text
            assert [row.id for row in rows if matches(where, row, facts[row.id])] == expected, text
            assert parse_where(where_text(where)) == where
        for value in (date(2026, 11, 27), "2026-11-27"):
            assert catalog.query.ids(F.reviewed_at == value) == [1, 2, 3]
        assert catalog.query.ids(F.reviewed_at >= datetime(2026, 11, 28, tzinfo=TOKYO)) == [2, 3, 4]


@pytest.mark.parametrize(
    "text",
    ["yesterday..", "2026-13-01", "2026-02-30", ">2026-11-27T25:00", "2026-11-27T10:00+99:00", "27.11.2026", '""', "1"],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    for field in ("reviewed_at", "ingested_at", "note_at"):
        with pytest.raises(FilterError, match="expected a time such as 2026-01, 2026-01-31, "):
            parse_where(f"{field}:{text}")


@given(
    st.datetimes(FIRST, LAST),
    st.datetimes(FIRST, LAST),
    st.integers(-23 * 60, 23 * 60),
    st.sampled_from(["days", "minutes", "seconds", "microseconds"]),
)
def test_text_orders_stored_times_as_time_does(first: datetime, other: datetime, zone: int, precision: str) -> None:
    local = first.replace(tzinfo=timezone(timedelta(minutes=zone)))
    whole = {"hour": 0, "minute": 0} if precision == "days" else {}
    start = local.replace(**whole, second=0, microsecond=0) if precision in ("days", "minutes") else local
    start = start.replace(microsecond=0) if precision == "seconds" else start
    written = start.isoformat(timespec="minutes" if precision == "days" else precision)
    text = written[:10] + written[16:] if precision == "days" else written
    stored = other.replace(tzinfo=UTC, microsecond=0)
    ((low, high),) = bounds_of("eq", [normal_time(text)])
    assert (low <= stored.isoformat() < high) == (start <= stored < start + timedelta(**{precision: 1}))
    assert span_of(normal_time(text)) == (low, high)
