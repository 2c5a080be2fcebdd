"""Two processes ingest, one tags, one pages, all at once; and a disk that is full. WSHARD_MINUTE=60 takes a minute."""

from __future__ import annotations

import json
import os
import sqlite3

import pytest
from bridge_episodes import assert_complete, episode, files, ingest, opened_archive, save, start
from databases import SQLITE_FIRST

SECONDS = float(os.environ.get("WSHARD_MINUTE", "0.5"))

INGESTING = """
import json, time
from pathlib import Path
from bridge_episodes import episode, save
from bridge.ingest.ingestor import TrajectoryIngestor
archive, folder, task, seconds = sys.argv[1:]
done, number, until = [], 0, time.monotonic() + float(seconds)
with TrajectoryIngestor(archive) as ingestor:
    while time.monotonic() < until or (float(seconds) and not done):
        paths = save(Path(folder), *(episode(int(task), number + more, 8) for more in range(10)))
        number += 10
        report = ingestor.ingest(paths, windows="whole")
        assert report.ok and report.new == 10, report
        done += map(str, paths)
print(json.dumps(done))
"""

TAGGING = """
import json, time
from bridge.archive import open_archive
archive, seconds = sys.argv[1:]
said, rounds, until = {}, 0, time.monotonic() + float(seconds)
with open_archive(archive) as opened:
    catalog = opened.catalog
    while time.monotonic() < until or not said:
        ids = [id_ for id_ in catalog.query.ids() if id_ not in said][:20]
        name = f"round-{rounds}"
        catalog.annotations.tag(ids, name)
        catalog.annotations.add_note(ids[:1], name)
        catalog.annotations.review(ids[1:2], name)
        said |= dict.fromkeys(ids, name)
        rounds += 1
        time.sleep(0.01)
print(json.dumps(said))
"""

PAGING = """
import json, time
from bridge.archive import open_archive
archive, seconds = sys.argv[1:]
walks, before, until = 0, 0, time.monotonic() + float(seconds)
with open_archive(archive) as opened:
    catalog = opened.catalog
    while time.monotonic() < until or not walks:
        seen, after = [], None
        while True:
            page = catalog.query.select("length:>0", order="-total_reward", after=after, limit=17)
            seen += [row.id for row in page.rows]
            if (after := page.next) is None:
                break
        assert len(seen) == len(set(seen))
        assert len(seen) >= before, "an episode was not there that had been"
        before, walks = len(seen), walks + 1
print(json.dumps(walks))
"""


@pytest.mark.long
@SQLITE_FIRST
def test_two_ingest_one_tags_one_pages_and_no_update_is_lost(place, tmp_path):
    archive, data = place, tmp_path / "data"
    save(data, episode(9, 0, 8))
    first = start(INGESTING, archive, data, 9, 0)
    assert first.communicate(timeout=60)[1] == ""
    children = [
        start(INGESTING, archive, data, 0, SECONDS),
        start(INGESTING, archive, data, 1, SECONDS),
        start(TAGGING, archive, SECONDS + 0.5),
        start(PAGING, archive, SECONDS + 0.5),
    ]
    message = []
    for process in children:
        output, errors = process.communicate(timeout=60 + 2 * SECONDS)
        assert process.returncode == 0, errors  # "database is locked" would be one
        message.append(json.loads(output))
    one, two, said, walks = message
    assert min(len(one), len(two), len(said), walks) > 0
    assert_complete(archive, [*one, *two])
    with opened_archive(archive) as opened:
        tags = {row.id: list(row.tags) for row in opened.catalog.episodes.rows(map(int, said)).values()}
        assert tags == {int(id_): [name] for id_, name in said.items()}
        rounds = len(set(said.values()))
        reviewed = opened.catalog.query.count("review:*")
        assert opened.catalog.query.count("note:*") == rounds
        assert rounds - 1 <= reviewed <= rounds  # the last round may have had one episode only


LIMITED = """
import resource, signal
from bridge.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv[:] = ["wshard", *sys.argv[2:]]
main()
"""


def limited(limit, archive, data):
    """Ingest with a limit on the size of files; return exit code and errors."""
    process = start(LIMITED, limit, "ingest", data, "-a", archive, "--windows", "whole")
    errors = process.communicate(timeout=60)[1]
    return process.returncode, errors


@pytest.mark.long
def test_a_full_disk_ends_an_ingest_in_one_line_and_nothing_is_lost(tmp_path):
    archive, data = tmp_path / "archive", tmp_path / "data"
    save(data / "one", *(episode(0, number, 8) for number in range(20)))
    assert ingest(archive, data).ok
    with opened_archive(archive) as opened:
        opened.catalog.annotations.tag(opened.catalog.query.ids(), "good")
    save(data / "two", *(episode(1, number, 8) for number in range(150)))
    limit = (archive / "catalog.db").stat().st_size + 30_000
    code, errors = limited(limit, archive, data)
    assert code == 1
    lines = [line for line in errors.splitlines() if not line.startswith(("reading", "embedding"))]
    assert len(lines) == 1
    assert lines[0].startswith("error: cannot use the catalog at")
    with sqlite3.connect(archive / "catalog.db") as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    raw.close()
    with opened_archive(archive) as opened:
        assert opened.catalog.query.count("tag:good") == 20
    assert ingest(archive, data).ok
    assert_complete(archive, files(data))
    with opened_archive(archive) as opened:
        assert opened.catalog.query.count("tag:good") == 20
