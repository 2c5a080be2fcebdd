"""Episodes in a bucket are ingested, searched and opened where they are; an empty answer deletes nothing."""

from __future__ import annotations

import json
import shutil

import numpy as np
import obstore
import pytest
from bridge_episodes import command, episode, save
from object_stores import BUCKET, upload
from obstore.store import S3Store
from PIL import Image

from bridge import open_archive
from wshard import open_sink
from wshard.core.files.object_client import client_of
from wshard.core.files.objects import forget
from wshard.core.files.schemes import place_of
from wshard.core.media.read_picture import read_picture
from wshard.data import load_dataset
from wshard.errors import DatasetError


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
    checked = command("fsck", "--data", "--archive", "far", folder=tmp_path)
    assert (checked.exit_code, checked.stdout) == (0, "5 episodes checked: no problems found\n"), checked.output


def test_queries_in_a_bucket_are_read_as_those_on_a_disk(s3, tmp_path):
    save(tmp_path / "in", episode(0, 0, id="0"), episode(1, 1, id="1"))
    done = command("ingest", "in", "--archive", "lab", "--lanes", "state", folder=tmp_path)
    assert done.exit_code == 0, done.output
    (tmp_path / "queries").mkdir()
    np.save(tmp_path / "queries" / "q.npy", episode(1, 1).observations["state"].data)
    Image.fromarray(np.full((8, 8, 3), 90, np.uint8)).save(tmp_path / "queries" / "p.png")
    uri = upload(s3, tmp_path / "queries", "queries")
    for query in ("q.npy", "q.npy@5:25"):
        for verb in ("search", "moments"):
            near, far = (
                command(verb, f"{place}/{query}", "--archive", "lab", "--json", folder=tmp_path)
                for place in (tmp_path / "queries", uri)
            )
            assert (near.exit_code, far.exit_code) == (0, 0), far.output
            hits = [[(one["uid"], one["score"]) for one in json.loads(done.stdout)["items"]] for done in (near, far)]
            assert hits[0] == hits[1] != []
    missing = command("search", f"{uri}/none.npy", "--archive", "lab", folder=tmp_path)
    assert (missing.exit_code, "none.npy" in missing.stderr) == (1, True)
    assert np.array_equal(read_picture(f"{uri}/p.png"), read_picture(tmp_path / "queries" / "p.png"))
    hits_file = command("search", "q.npy", "--archive", "../lab", "--json", folder=tmp_path / "queries").stdout
    (tmp_path / "queries" / "hits.json").write_text(hits_file)
    drawn = command(
        "plot",
        f"{upload(s3, tmp_path / 'queries', 'drawn')}/hits.json",
        "--output",
        "hits.html",
        "--archive",
        "lab",
        folder=tmp_path,
    )
    assert (drawn.exit_code, (tmp_path / "hits.html").exists()) == (0, True), drawn.output


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


def test_what_is_wrong_with_a_location_is_said_in_a_line_and_makes_no_archive(s3, tmp_path, monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    for uri, cause in {
        "s3://no-such-bucket/a": "no such bucket",
        f"s3://{BUCKET}/none": "no such file or folder",
        f"s3://{BUCKET}/a/../b": "expected a key without empty parts, '.' and '..'",
        "az://lab/x": "expected the account in AZURE_STORAGE_ACCOUNT_NAME",
        "s4://lab/x": "expected a path, or a URI of scheme",
    }.items():
        done = command("ingest", uri, "--archive", "lab", folder=tmp_path)
        assert (done.exit_code, done.output.count("\n"), cause in done.output) == (1, 1, True), done.output
        assert uri.rpartition("/")[0] in done.output
    assert not (tmp_path / "lab").exists()


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
    assert "3 of 3 episodes OK" in command("verify", f"{uri}/files", folder=tmp_path).output
    failed = command("verify", f"{uri}/none.wshard", folder=tmp_path)
    assert (failed.exit_code, "no such object" in failed.output) == (1, True)


@pytest.mark.long
def test_what_other_programs_wrote_reads_the_same_from_a_bucket(s3, dataset_fixtures, tmp_path):
    for group in ("rosbag2", "world_model", "lerobot", "other"):
        shutil.copytree(dataset_fixtures / group, tmp_path / "in", dirs_exist_ok=True)
    on_disk_only = [*(tmp_path / "in").glob("sqlite3*"), tmp_path / "in" / "main.lance"]  # as docs/formats.md says
    for path in on_disk_only:
        refused = command("inspect", upload(s3, path, f"paths/{path.name}"), folder=tmp_path)
        assert (refused.exit_code, "which this format needs: download it" in refused.output) == (1, True)
        shutil.rmtree(path)
    uri = upload(s3, tmp_path / "in", "others")

    def say(place, line):
        done = command(*line, folder=tmp_path)
        lines = done.output.replace(str(place), "PLACE").replace(f"{tmp_path}/", "").replace("in/", "PLACE/")
        return done.exit_code, [" ".join(line.split()) for line in lines.splitlines()]

    listed = []
    for place, archive in ((tmp_path / "in", "near"), (uri, "far")):
        assert command("ingest", place, "--archive", archive, folder=tmp_path).exit_code == 0
        listed.append(say(place, ("ls", "--sort", "episode", "--limit", "100", "--archive", archive)))
    assert listed[0] == listed[1]
    assert len(listed[0][1]) > 20
    for name in sorted(path.name for path in (tmp_path / "in").iterdir() if path.suffix != ".json"):
        for verb, option in (("inspect", "--json"), ("verify", "--json")):
            near, far = (say(place, (verb, f"{place}/{name}", option)) for place in (tmp_path / "in", uri))
            assert near == far, name


def test_clips_are_drawn_from_a_bucket(s3, dataset_fixtures):
    sets = ("world_model/main.h5", "world_model/main_video", "lerobot/lerobot_v21_image", "other/dreamerv3_replay")
    for name in sets:
        near = load_dataset(dataset_fixtures / name, num_steps=2)
        far = load_dataset(upload(s3, dataset_fixtures / name, f"clips/{name}"), num_steps=2)
        assert len(near) == len(far) > 0
        for column, values in near[len(near) - 1].items():
            assert np.array_equal(values, far[len(near) - 1][column]), (name, column)
    with pytest.raises(DatasetError, match=r"No format detected for s3://lab/clips: it has the data sets .*main\.h5"):
        load_dataset(f"s3://{BUCKET}/clips")
