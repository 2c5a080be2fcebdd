"""PostgreSQL: connections to a server, its transactions, its errors."""

from __future__ import annotations

import re
import select
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError, NoSuchModuleError

from catalog.database import engine as files
from catalog.database.engine import MODE, NO_ANSWER, Database, Reasons
from wshard.core.messages import how_to_install, public_url
from wshard.errors import (
    CatalogBusyError,
    CatalogError,
    CatalogNotFoundError,
    CatalogUnreachableError,
    CatalogWriteError,
    MissingExtraError,
)

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Dialect
    from sqlalchemy.pool import ConnectionPoolEntry

DRIVER = "postgresql+psycopg"
LOCK = 0x777368617264
"""Key of the advisory lock that every writing transaction takes first: the letters "wshard"."""

_URL_FORM = "expected the URL postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_SERVER = re.compile(r"postgres(ql)?(\+\w*)?://", re.IGNORECASE)
_PUBLIC_OPTIONS = re.compile(
    r"host|hostaddr|port|dbname|user|options|service|servicefile|passfile|application_name|client_encoding|replication|"
    r"ssl(?!password)\w+|requirepeer|target_session_attrs|load_balance_hosts|channel_binding|gss\w+|krb\w+|keepalives\w*|"
    r"\w+_timeout|(min|max)_protocol_version"
)
"""Options of libpq that are shown; others hold secrets, or are unknown."""
_CONNECT_SECONDS = 10
_PARALLEL_SETUP_COST = 6000
"""The planner's cost of starting parallel workers: too high for pages, not for facets of everything."""
_PING_AFTER_SECONDS = 5.0
"""Seconds after which a connection may have been dropped by anything between here and the server."""
_UNREACHABLE = (
    "its server cannot be reached: is it running, and are host, port, user and database right? What was committed is "
    "safe; try again when it is back"
)
_REASONS: Reasons = (
    (("55P03", "40001", "40P01"), CatalogBusyError, "another process held its write lock for too long"),
    (("53300",), CatalogBusyError, "its server has no free connections"),
    (("53100", "53200", "25006", "42501", "58030"), CatalogWriteError, "its server cannot write it, or may not"),
    (("3D000",), CatalogNotFoundError, "there is no such database; `createdb` makes one"),
    (
        (NO_ANSWER, "08", "28", "57P"),
        CatalogUnreachableError,
        _UNREACHABLE,
    ),
)


def open_server(location: str) -> Database:
    """Open the database at a URL, without connecting yet. MissingExtraError if its driver is not installed."""
    url = server_url(location)
    try:
        engine = create_engine(
            url,
            max_overflow=-1,  # threads wait for the write lock in the server, never for a connection
            connect_args={
                "prepare_threshold": None,  # plans fit their values, and proxies that share connections work
                "connect_timeout": _CONNECT_SECONDS,
                "application_name": "wshard",
                # JIT compilation takes longer than these statements, and so does starting workers for most.
                "options": f"-c jit=off -c parallel_setup_cost={_PARALLEL_SETUP_COST} {url.query.get('options', '')}",
            },
        )
    except ImportError as error:
        raise MissingExtraError(
            f"the catalog at {_shown(url)} needs a driver that is not installed: {error}; "
            f"{how_to_install('postgres')} brings that of {DRIVER}://"
        ) from error
    except NoSuchModuleError as error:
        raise CatalogError(f"expected sqlite or postgresql, found the database {_shown(url)}") from error
    event.listen(engine, "begin", _begin)
    event.listen(engine, "checkin", _note_return)
    event.listen(engine, "checkout", partial(_check_connection, engine.dialect))
    # All statements of a reading transaction see the same state, as they do in SQLite.
    reading = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    return Database(engine, _shown(url), reasons=_REASONS, reading=reading)


def _note_return(_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info["used"] = monotonic()


def _check_connection(dialect: Dialect, connection: Any, record: ConnectionPoolEntry, _borrowed: Any) -> None:
    """Reconnect if the server was restarted, before a statement fails.

    A stopping server notifies every connection, so checking one in use needs no query; others may have been dropped on
    the way.
    """
    used = record.info.get("used")
    if used is None:
        return
    try:
        if monotonic() - used > _PING_AFTER_SECONDS or not _is_quiet(connection):
            dialect.do_ping(connection)
    except (dialect.loaded_dbapi.Error, OSError) as error:
        raise InvalidatePoolError from error


def _is_quiet(connection: Any) -> bool:
    """Return True if nothing arrived from the server since its last response; False if that cannot be determined."""
    if not (hasattr(select, "poll") and hasattr(connection, "fileno")):  # Windows, other drivers
        return False
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return not poller.poll(0)


def server_url(location: str) -> URL:
    """Return the URL with the default driver unless it names another, and the password moved out of the query.

    In a query, as in postgresql://HOST/DATABASE?password=..., it would be shown with the URL. CatalogError for an
    invalid URL, or one of another product.
    """
    url = _parse_url(location)
    if (in_query := url.query.get("password")) is not None:
        url = url.difference_update_query(["password"]).set(
            password=in_query if isinstance(in_query, str) else in_query[-1]
        )
    return url.set(drivername=DRIVER) if url.drivername in ("postgresql", "postgres") else url


def _parse_url(location: str) -> URL:
    """Parse a URL; invalid parts may be part of a password, and are not shown."""
    try:
        url = make_url(location)
        url = url.set(drivername=url.drivername.lower())
    except (ArgumentError, ValueError) as error:  # the latter of ports
        raise CatalogError(f"{_URL_FORM}, found {public_url(location)}") from error
    if url.drivername.partition("+")[0] not in ("postgresql", "postgres"):
        raise CatalogError(f"expected a catalog on PostgreSQL or in a folder, found {public_url(location)}")
    if "@" in (url.host or ""):
        raise CatalogError(f"{_URL_FORM} with %40 for each @ in a password, found {public_url(location)}")
    return url


def is_server(text: str) -> bool:
    """Return True if the text is the URL of a PostgreSQL server."""
    return _SERVER.match(text) is not None


def shown_url(location: str) -> str:
    """Return the URL of a server without its password; raises as server_url."""
    return _shown(server_url(location))


def _begin(connection: Connection) -> None:
    mode = connection.get_execution_options()[MODE]
    if mode == "read":
        return
    settings: dict[str, Any] = {"lock_timeout": f"{files.BUSY_SECONDS * 1000:.0f}"}
    if mode == "durable":
        settings["synchronous_commit"] = "on"
    settings_sql = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
    connection.exec_driver_sql(f"SELECT {settings_sql}, pg_advisory_xact_lock({LOCK})")


def _shown(url: URL) -> str:
    """Return the URL without secrets: passwords, and all options that are not known to be public."""
    hidden = [name for name in url.query if not _PUBLIC_OPTIONS.fullmatch(name)]
    return url.difference_update_query(hidden).render_as_string(hide_password=True)
