"""A connection that was lost before is an error of the catalog, not of the library below it."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import PendingRollbackError, ResourceClosedError

from catalog.database.engine import NO_ANSWER, translate_errors
from wshard.errors import CatalogUnreachableError

REASONS = (((NO_ANSWER,), CatalogUnreachableError, "its server does not answer"),)


def test_what_follows_a_lost_connection_is_translated(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path / 'some.db'}")
    with engine.connect() as connection:
        connection.begin()
        connection.invalidate()  # as after a server has gone
        with pytest.raises(CatalogUnreachableError, match="does not answer") as caught, translate_errors("x", REASONS):
            connection.exec_driver_sql("SELECT 1")
        assert isinstance(caught.value.__cause__, PendingRollbackError)
    with (
        pytest.raises(CatalogUnreachableError) as caught,
        translate_errors("x", REASONS),
        engine.connect() as connection,
    ):
        connection.exec_driver_sql("CREATE TABLE t (x)").all()
    assert isinstance(caught.value.__cause__, ResourceClosedError)
    engine.dispose()
