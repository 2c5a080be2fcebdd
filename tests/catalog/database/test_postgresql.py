"""What only a catalog on a server has: reaching it, creating it at once, its lock, its restarts."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from catalog import Catalog
from catalog.database import engine
from catalog.database.migrations import STEPS
from catalog.database.postgresql import LOCK, server_url
from catalog.location import place_of
from catalog.testing.contract import make_record
from wshard.errors import (
    CatalogBusyError,
    CatalogError,
    CatalogNotFoundError,
    CatalogUnreachableError,
    CatalogVersionError,
    CatalogWriteError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from databases import Server


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with server.catalog() as lent:
        yield lent


def run(url: str, *statements: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def children(program: str, *arguments: list[str]) -> list[str]:
    """Run the program at once with each of these arguments and return what each printed."""
    commands = [[sys.executable, "-c", program, *given, *sys.path] for given in arguments]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    message = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0] * len(started), [errors for _, errors in message]
    return [output for output, _ in message]


def test_a_server_is_named_with_and_without_its_driver(url: str) -> None:
    with Catalog.open(url) as catalog:
        catalog.episodes.register([make_record(1)])
        for other in ("postgresql://", "postgres://"):
            with Catalog.open(url.replace("postgresql+psycopg://", other)) as again:
                assert again.archive_id == catalog.archive_id
                assert again.query.count() == 1


def test_an_empty_database_becomes_a_catalog_only_on_request(server: Server) -> None:
    url = server.empty()
    with pytest.raises(CatalogNotFoundError, match="empty database"):
        Catalog.open(url)
    Catalog.open(url, create=True).close()
    with Catalog.open(url) as catalog:
        assert catalog.query.count() == 0
    run(url, "INSERT INTO migration VALUES (99, 'from the future', 'now')")
    with pytest.raises(CatalogVersionError, match=r"found version 99.*update the software"):
        Catalog.open(url)


def test_a_database_of_something_else_is_left_alone(server: Server) -> None:
    url = server.empty()
    run(url, "CREATE TABLE other (x int)")
    with pytest.raises(CatalogError, match=r"other tables: \['other'\]"):
        Catalog.open(url, create=True)


def test_what_cannot_be_reached_is_reported_with_advice_and_without_the_password(
    server: Server, tmp_path: Path
) -> None:
    hidden = (f"postgresql://ann:secret@/x?host={tmp_path}", f"postgresql://ann@/x?host={tmp_path}&password=secret")
    hidden += (f"postgresql://ann@/x?host={tmp_path}&sslpassword=secret",)
    for wrong in (server.url("absent"), *hidden):
        with pytest.raises(CatalogUnreachableError, match=r"is it running, and are host.*database right") as caught:
            Catalog.open(wrong, create=True)
        assert isinstance(caught.value, ConnectionError)
        assert "secret" not in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1, "the driver's own words have several lines"
    for location in ("postgresql://ann:secret@host/x", "postgresql://ann@host/x?password=old&password=secret"):
        assert "secret" not in place_of(location).name
        assert server_url(location).password == "secret"  # noqa: S105
    key = "postgresql://ann@host/x?sslpassword=secret"
    assert "secret" not in place_of(key).name
    assert server_url(key).query["sslpassword"] == "secret"


@pytest.mark.parametrize(
    "location",
    [
        "postgresql://u:secret@h:notaport/db",
        "postgresql://u:secret@[::1/db",
        "postgresql://u:part@secret@h/db",
        "postgresql:/u:secret@h/db",
        " postgresql://u:secret@h/db",
        "mysql://u:secret@h/db",
        "mysql+pymysql://u:secret@h/db",
        "http://h/?token=secret",
        "s3://key:secret@bucket/x",
    ],
)
def test_what_is_the_url_of_no_catalog_is_refused_and_its_secrets_are_not_reported(location: str) -> None:
    for ask in (place_of, Catalog.open) if location.startswith(("postgresql://", "mysql")) else (place_of,):
        with pytest.raises(CatalogError, match="expected") as caught:
            ask(location)
        assert "secret" not in str(caught.value)


def test_no_text_about_a_place_has_its_password() -> None:
    place = place_of("POSTGRESQL://ann:secret@host/x?pwd=secret&host=/tmp&sslmode=prefer")
    assert place.name == "postgresql+psycopg://ann:***@host/x?host=%2Ftmp&sslmode=prefer"
    assert "secret" not in repr(place)


CREATE = """
import sys
url, sys.path[:0] = sys.argv[1], sys.argv[2:]
from catalog import Catalog
with Catalog.open(url, create=True) as catalog:
    print(catalog.archive_id)
"""


@pytest.mark.long
def test_processes_that_create_at_once_get_one_archive(server: Server) -> None:
    url = server.empty()
    assert len(set(children(CREATE, *[[url]] * 2))) == 1
    with Catalog.open(url) as catalog:
        assert len(catalog.query.sql("SELECT * FROM migration").rows) == len(STEPS)
        assert len(catalog.query.sql("SELECT * FROM archive").rows) == 1


def test_a_reader_sees_one_state_and_never_waits_for_a_writer(url: str) -> None:
    with Catalog.open(url) as catalog:
        catalog.episodes.register([make_record(1)])
        with catalog._session.write() as connection, catalog._session.read() as reader:
            connection.exec_driver_sql("UPDATE archive SET clock = clock + 5")
            before = reader.exec_driver_sql("SELECT clock FROM archive").scalar_one()
            connection.commit()
            assert reader.exec_driver_sql("SELECT clock FROM archive").scalar_one() == before
        assert catalog.clock() == before + 5
        with pytest.raises(CatalogWriteError, match="cannot write it, or may not"), catalog._session.read() as reader:
            reader.exec_driver_sql("UPDATE archive SET clock = 0")


def test_a_long_lock_is_reported(url: str, monkeypatch) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.2)
    holder = create_engine(url, poolclass=NullPool)
    with Catalog.open(url) as catalog:
        with holder.begin() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
            assert catalog.query.count() == 0
            with pytest.raises(CatalogBusyError, match="another process held its write lock"):
                catalog.episodes.register([make_record(9)])
        assert catalog.episodes.register([make_record(9)])[0].outcome == "new"


def test_a_server_that_was_stopped_is_reported_and_used_again_when_it_is_back(server: Server, url: str) -> None:
    with Catalog.open(url) as catalog:
        catalog.episodes.register([make_record(1)])
        server.stop()
        try:
            for ask in (catalog.query.count, lambda: catalog.annotations.tag([1], "good")):
                with pytest.raises(CatalogUnreachableError, match="What was committed is safe"):
                    ask()
        finally:
            server.start()
        assert catalog.query.count() == 1
        # Stopped and started again between two questions, nobody notices.
        server.stop()
        server.start()
        assert catalog.annotations.tag([1], "good") == 1


def test_connections_that_were_closed_while_no_one_used_them_are_replaced(server: Server, url: str) -> None:
    with Catalog.open(url) as catalog:
        catalog.episodes.register([make_record(1)])
        for close in ("itself", "the server"):
            with catalog._session.read() as connection:
                raw: Any = connection.connection.driver_connection
                number = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            if close == "itself":
                raw.close()
            else:
                server.run(f"SELECT pg_terminate_backend({number}, 5000)")
            assert catalog.query.count() == 1


def test_a_connection_that_dies_loses_the_transaction_and_nothing_else(server: Server, url: str) -> None:
    with Catalog.open(url) as catalog:
        catalog.episodes.register([make_record(1)])

        def die() -> None:
            with catalog._session.write() as connection:
                connection.exec_driver_sql("DELETE FROM lane")
                number = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
                server.run(f"SELECT pg_terminate_backend({number}, 5000)")
                connection.exec_driver_sql("SELECT 1")

        with pytest.raises(CatalogUnreachableError):
            die()
        assert len(catalog.query.facts([1])[1].lanes) == 3
