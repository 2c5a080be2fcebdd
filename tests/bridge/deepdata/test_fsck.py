"""fsck of an archive whose index is a server: what is there too little, too much, too long; reported, and mended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bridge_episodes import episode, files, ingest, save
from command_line import app
from deepdata_fake import Fake
from deepdata_replay import serving
from typer.testing import CliRunner

from wshard import TrajectoryIngestor, open_archive
from wshard import check_archive as check
from wshard import repair_archive as repair

if TYPE_CHECKING:
    from collections.abc import Iterator


class Served:
    """An archive of twelve episodes and the server that holds its vectors, which can be reached at url."""

    def __init__(self, folder: Path, fake: Fake, url: str) -> None:
        self.folder, self.fake, self.url = folder, fake, f"{url}?rpm=0"
        self.data, self.archive = folder / "data", folder / "archive"
        save(self.data, *(episode(number % 3, number, 12) for number in range(12)))
        self.ingest()

    @property
    def documents(self) -> dict[int, Any]:
        (made,) = self.fake.collections.values()
        return made.documents

    def ingest(self, **options: Any) -> None:
        with TrajectoryIngestor(self.url, archive=self.archive) as ingestor:
            assert ingestor.ingest(self.data, windows="whole", **options).ok

    def describe(self, *, data: bool = False) -> list[tuple[str, str]]:
        with open_archive(self.url, archive=self.archive) as opened:
            return [(one.code, one.message) for one in check(opened, data=data).findings]

    def mended(self, *, data: bool = False) -> None:
        """Repair, and assert that everything is right afterwards, document by document."""
        with open_archive(self.url, archive=self.archive) as opened:
            assert repair(opened, data=data).findings == ()
            assert check(opened, data=True).ok
            paths = {row.uid: row.path for row in opened.catalog.episodes.rows(opened.catalog.query.ids()).values()}
        found = [paths[document["metadata"]["uid"]] for document in self.documents.values()]
        assert sorted(found) == [str(path) for path in files(self.data)]

    def sent(self) -> int:
        """Return how many documents have ever been sent."""
        (made,) = self.fake.collections.values()
        return int(made.next_id) - 1


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    fake = Fake()
    with serving(fake.respond) as server:
        yield Served(tmp_path, fake, server.url)


def test_a_server_that_holds_just_the_ledgers_vectors_is_in_order(served: Served) -> None:
    assert served.describe() == served.describe(data=True) == []
    served.mended()


@pytest.mark.parametrize("data", [False, True])
def test_missing_vectors_are_reported_and_sent_again_they_alone(served: Served, *, data: bool) -> None:
    for number in (3, 7):
        del served.documents[number]
    assert served.describe(data=data) == [("index", "lost: 2 documents are gone or replaced")]
    served.mended(data=data)
    assert served.sent() == 14


def test_a_number_that_was_given_to_something_else_is_found_by_reading_all(served: Served) -> None:
    served.documents[3]["metadata"] |= {"ref": "other"}
    assert served.describe(data=True) == [("index", "lost: 1 documents are gone or replaced")]
    served.mended(data=True)


def test_vectors_that_no_one_knows_are_reported_and_go(served: Served) -> None:
    (made,) = served.fake.collections.values()
    made.add({"embedding": served.documents[1]["vector"]}, {"ref": "stray", "live": 1})
    assert served.describe() == [("index", "more: 1 documents more than it was given")]
    run = CliRunner().invoke(app, ["index", "audit", "-a", str(served.archive), "--index", served.url])
    assert run.exit_code == 1
    assert "`wshard fsck --repair` with the same --index removes the surplus" in run.stderr
    assert "ingest again" not in run.stderr
    served.mended()


def test_vectors_of_episodes_that_are_gone_are_reported_and_removed(served: Served) -> None:
    with open_archive(served.archive) as opened:  # the server hears nothing of it
        gone = opened.catalog.query.ids()[:2]
        for row in opened.catalog.episodes.rows(gone).values():
            Path(row.path).unlink()
        opened.catalog.episodes.remove(gone)
    assert served.describe() == [("index", "more: 2 vectors that the catalog no longer has")]
    served.mended()
    assert served.sent() == 12


def test_vectors_that_were_never_sent_are_reported_and_sent(served: Served) -> None:
    save(served.data, episode(1, 40, 12))
    ingest(served.archive, served.data)
    assert served.describe() == [("index", "behind: 12 vectors, the catalog has 13")]
    served.mended()
    assert served.sent() == 13


def test_a_server_that_lost_everything_is_filled_again(served: Served) -> None:
    served.fake.tenants.clear()
    assert served.describe() == [("index", "lost: there is no such collection")]
    served.mended()


def test_a_foreign_collection_is_reported_and_left_alone(served: Served) -> None:
    (made,) = served.fake.collections.values()
    made.schema["metadata"] = {"archive": "another"}
    before = dict(made.documents)
    run = CliRunner().invoke(app, ["fsck", "-a", str(served.archive), "--index", served.url, "--repair"])
    assert run.exit_code == 1
    assert "could not repair the index" in run.output
    assert "foreign" in run.output
    assert made.documents == before


def test_a_server_that_does_not_answer_is_one_finding_and_files_are_checked_nevertheless(served: Served) -> None:
    files(served.data)[0].unlink()
    options = ["-a", str(served.archive), "--index", "http://127.0.0.1:9"]
    for more in ([], ["--repair"]):
        run = CliRunner().invoke(app, ["fsck", *options, *more])
        assert run.exit_code == 1
        assert "missing" in run.stdout
        assert "unreachable: start the index server" in run.stderr
        assert "12 episodes checked: 2 findings" in run.stdout
