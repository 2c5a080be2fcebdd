"""Episodes in a bucket are ingested, searched and opened where they are; an empty answer deletes nothing."""

from __future__ import annotations

import json

import numpy as np
import obstore
from bridge_episodes import command, episode, save
from object_stores import BUCKET, upload
from obstore.store import S3Store

from bridge import open_archive
from wshard import open_sink
from wshard.core.files.object_client import client_of
from wshard.core.files.objects import forget
from wshard.core.files.schemes import place_of


def rows(folder):
    """Return the catalogued episodes."""
    return json.loads(command("ls", "--archive", "lab", "--json", folder=folder).stdout)["items"]


def fill(s3, folder, prefix):
    """Write three episodes of files and two of a LeRobot set, on the disk and in the bucket; return the URI."""
    save(folder / "in", *(episode(number % 2, number, id=str(number), env_id="files") for number in range(3)))
    with open_sink(folder / "in" / "robot", "lerobot") as sink:
        for number in range(3, 5):
            sink.write(episode(number % 2, number))
    return upload(s3, folder / "in", prefix)


def test_a_bucket_is_searched_as_the_same_files_on_a_disk(s3, tmp_path):
    uri = fill(s3, tmp_path, "same")
    for place, name in ((tmp_path / "in", "near"), (uri, "far")):
        done = command("ingest", place, "--archive", name, folder=tmp_path)
        assert done.exit_code == 0, done.output
    hits = {}
    for place, name in ((tmp_path / "in", "near"), (uri, "far")):
        for query in (f"{place}/files/1.wshard", f"{place}/robot#1"):
            found = command("search", query, "--archive", name, "--json", folder=tmp_path)
            assert found.exit_code == 0, found.output
            items = json.loads(found.stdout)["items"]
            hits.setdefault(query.removeprefix(str(place)), []).append(
                [(item["episode_id"], round(item["score"], 5)) for item in items]
            )
    assert all(near == far and near for near, far in hits.values()), hits
    with open_archive(tmp_path / "far") as archive:
        for hit in archive.search(f"{uri}/files/0.wshard"):
            assert str(hit.address).startswith("s3://")
            with hit.open() as episode:
                assert np.isfinite(episode.load().length)
    again = command("ingest", uri, "--archive", "far", folder=tmp_path)
    assert (again.exit_code, "5 unchanged" in again.output) == (0, True), again.output


def test_what_a_bucket_does_not_list_is_not_deleted(s3, tmp_path, monkeypatch):
    uri = fill(s3, tmp_path, "lost")
    assert command("ingest", uri, "--archive", "lab", folder=tmp_path).exit_code == 0
    store = S3Store(BUCKET, endpoint=s3, skip_signature=True, client_options={"allow_http": True})
    obstore.delete(store, "lost/files/0.wshard")
    forget()
    assert command("ingest", uri, "--prune", "--archive", "lab", folder=tmp_path).exit_code == 0
    assert len(rows(tmp_path)) == 4
    for name in ("1", "2"):
        obstore.delete(store, f"lost/files/{name}.wshard")
    obstore.delete(store, [file.uri.partition(f"{BUCKET}/")[2] for file in place_of(f"{uri}/robot").walk()])
    forget()
    command("ingest", uri, "--prune", "--yes", "--archive", "lab", folder=tmp_path)
    assert len(rows(tmp_path)) == 4
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    client_of.cache_clear()
    forget()
    failed = command("ingest", uri, "--prune", "--yes", "--archive", "lab", folder=tmp_path)
    assert failed.exit_code == 1
    assert f"{uri}: expected an answer of the store" in " ".join(failed.output.split())
    assert len(rows(tmp_path)) == 4


def test_verbs_about_files_say_the_same_of_objects(s3, tmp_path):
    uri = fill(s3, tmp_path, "verbs")
    damaged = (tmp_path / "in" / "files" / "1.wshard").read_bytes()
    (tmp_path / "in" / "bad.wshard").write_bytes(damaged[:-100] + bytes(100))
    upload(s3, tmp_path / "in" / "bad.wshard", "verbs/bad.wshard")
    lines = [
        ("inspect", "{}/files/1.wshard"),
        ("inspect", "{}/files/1.wshard", "--json"),
        ("inspect", "{}/robot"),
        ("inspect", "{}/robot#1", "--json"),
        ("verify", "{}/files/1.wshard", "{}/robot"),
        ("verify", "{}/bad.wshard"),
        ("cat", "{}/files/1.wshard", "action/ctrl", "--format", "json"),
        ("cat", "{}/robot#1@2:5", "action/ctrl"),
    ]
    for line in lines:
        near, far = (
            command(*(word.format(place) for word in line), folder=tmp_path) for place in (tmp_path / "in", uri)
        )
        assert near.exit_code == ("bad" in line[1]), near.output
        same = near.output.replace(str(tmp_path / "in"), uri).splitlines()
        assert (far.exit_code, far.output.splitlines()) == (near.exit_code, [one for one in same if "try:" not in one])
    assert "3 of 3 files OK" in command("verify", f"{uri}/files", folder=tmp_path).output
    failed = command("verify", f"{uri}/none.wshard", folder=tmp_path)
    assert (failed.exit_code, "no such object" in failed.output) == (1, True)
