"""Every verb works on a URL of a store, or says that it needs a path on a local disk; none takes it for a path."""

from __future__ import annotations

from bridge_episodes import command, episode, save
from object_stores import upload

from bridge.cli.verbs import EXAMPLES

URL = "s3://lab/none"
LOCAL = (
    *("repair {}", "repair a -o {}", "recover {}", "cat a state -o {}", "convert a {}", "export {} -f npz"),
    *("export a -f npz -o {}", "pack {} --to q", "pack a --to {}", "unpack {} --to q", "unpack q --to {}"),
    *("watch {}", "backup {}", "restore {}", "annotations export {}", "annotations import {}", "demo {}"),
    *("export-list good --to {}", "train-embedder {}", "shardify a --to {}", "plot a --output {}"),
    *("check --limits {}", "ingest a --encoder {}", "ingest a --text-encoder {}", "serve --auth {}"),
)
READING = (
    *("ingest {}", "moments {}@2:12", "probe --right {}", "show {}", "plot {} -o span.png", "check {}"),
    *("convert {} out", "shardify {} --to shards --stride 1", "tag good {}", "note seen {}", "review accepted {}"),
)
ELSEWHERE = ("search", "inspect", "verify", "layout guess")
"""Verbs that read URLs in tests/bridge/ingest/test_object_stores.py and of layouts."""

NO_FILES = (
    *("ls", "facets", "stats", "sql", "evaluate", "duplicates", "leaks", "outliers", "select", "weights"),
    *("mislabeled", "fsck", "health", "formats", "cache", "doctor", "layout list", "layout show", "archive copy"),
)
"""Verbs that take a filter, a name or an archive; those of collections and indexes, too."""


def test_a_url_is_refused_where_only_a_local_disk_will_do(tmp_path):
    for line in LOCAL:
        done = command(*line.replace("{}", URL).split(), folder=tmp_path)
        assert (done.exit_code, "expected a path on a local disk" in done.output) == (2, True), (line, done.output)
    assert not [*tmp_path.iterdir()]


def test_verbs_that_read_episodes_take_a_url(s3, tmp_path):
    (file,) = save(tmp_path / "in", episode(0, 0, id="0"))
    url = upload(s3, file, f"verbs/{file.name}")
    for line in READING:
        done = command(*line.replace("{}", url).split(), folder=tmp_path)
        assert done.exit_code == 0, (line, done.output)
    assert not (tmp_path / "s3:").exists()


def test_each_verb_is_one_or_the_other_or_takes_no_files():
    placed = " ".join(["", *LOCAL, *READING, *ELSEWHERE, *NO_FILES, ""])
    words = {verb for verb in EXAMPLES if not verb.startswith(("collection ", "index "))}
    assert [verb for verb in sorted(words) if f" {verb} " not in placed] == []
