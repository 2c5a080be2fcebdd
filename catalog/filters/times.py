"""Times in filters: a year, a month, a day, a minute or an instant, as the span of stored times that it covers.

Stored times are UTC in ISO 8601 with the offset +00:00, so that text orders them.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLOCK: Final = r"[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,6})\d*)?)?"
_ZONE: Final = r"(Z|z|[+-]\d\d:?\d\d)?"
_TIME: Final = re.compile(rf"(\d{{4}})(?:-(\d\d)(?:-(\d\d)(?:{_CLOCK})?{_ZONE})?)?")
EXPECTED_TIME: Final = "a time such as 2026-01, 2026-01-31, 2026-01-31T10:00 or 2026-01-31T10:00:00+09:00"


def normal_time(value: object) -> str | None:
    """Return a time as filters store it, None for anything else: instants in UTC, days and longer spans as written.

    Without a zone, times are UTC. Takes text, and dates and datetimes of Python.
    """
    if isinstance(value, date):  # a datetime is a date, too
        value = value.isoformat()
    if not isinstance(value, str) or span_of(value.strip()) is None:
        return None
    text = value.strip()
    match = _TIME.fullmatch(text)
    if match is None or match[4] is None:
        return text
    instant = datetime.fromisoformat(span_of(text)[0])  # type: ignore[index]  # a span, as above
    precision = "minutes" if match[6] is None else "seconds" if match[7] is None else "microseconds"
    return instant.isoformat(timespec=precision)


@lru_cache(maxsize=1024)
def span_of(text: str) -> tuple[str, str | None] | None:
    """Return the stored times [start, stop) that a time covers, stop None at the end of all; None for no time."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        start = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0),
            int((fraction or "").ljust(6, "0")), tzinfo=_zone(zone),
        )  # fmt: skip
        first = start.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    try:
        stop = _end(start, month, day, hour, second, fraction).astimezone(UTC)
    except (ValueError, OverflowError):  # the year 9999 ends
        return _stored(first), None
    return _stored(first), _stored(stop)


def bounds_of(op: str, values: Sequence[object]) -> list[tuple[str | None, str | None]]:
    """Return the ranges [start, stop) of stored times that a comparison with times covers, None for an open end."""
    spans = [span for span in map(span_of, map(str, values)) if span is not None]
    if op in ("eq", "in"):
        return [*spans]
    start, stop = spans[0][0], spans[-1][1]
    ranges: dict[str, list[tuple[str | None, str | None]]] = {
        "lt": [(None, start)],
        "le": [(None, stop)],
        "ge": [(start, None)],
        "gt": [] if stop is None else [(stop, None)],
        "between": [(start, stop)],
    }
    return [*ranges["lt"], *ranges["gt"]] if op == "ne" else ranges[op]


def _end(
    start: datetime, month: str | None, day: str | None, hour: str | None, second: str | None, fraction: str | None
) -> datetime:
    if month is None:
        return start.replace(year=start.year + 1)
    if day is None:
        return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    if hour is None:
        return start + timedelta(days=1)
    if second is None:
        return start + timedelta(minutes=1)
    return start + (timedelta(seconds=1) if fraction is None else timedelta(microseconds=1))


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return UTC
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-offset if text.startswith("-") else offset)


def _stored(instant: datetime) -> str:
    """Return an instant as it is stored, with a fraction only if it has one."""
    return instant.isoformat(timespec="microseconds" if instant.microsecond else "seconds")
