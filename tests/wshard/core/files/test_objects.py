"""Objects of a real S3 server, and of a web server that fails, are read as files are: the same data, or an error."""

from __future__ import annotations

import fsspec
import numpy as np
import pytest
from object_stores import BUCKET, STRANGER, serving_ranges, upload
from sink_places import make_episode

from wshard import Episode, FormatError, load, open_episode, save
from wshard.core.files.object_client import client_of
from wshard.core.files.objects import forget
from wshard.core.files.schemes import place_of
from wshard.errors import MissingExtraError, ObjectStoreError
from wshard.testing import assert_same_episode


@pytest.fixture
def web(monkeypatch, tmp_path):
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "cache of objects"))
    forget()
    with serving_ranges() as server:
        yield server


def make_large(path):
    """Write an episode of 6 MB that does not compress, with a lane of 28 kB; return the lane."""
    rng = np.random.default_rng(0)
    small = rng.standard_normal((500, 7)).astype(np.float64)
    lanes = {"small": small, **{f"large{n}": rng.standard_normal((500, 300)) for n in range(5)}}
    save(Episode("big", "arm", 500, observations=lanes, actions={"action": rng.standard_normal((500, 2))}), path)
    return small


def test_a_lane_costs_few_requests_and_few_more_bytes_than_it_has(web, tmp_path):
    small = make_large(tmp_path / "a.wshard")
    web.files["a.wshard"] = (tmp_path / "a.wshard").read_bytes()
    with open_episode(f"{web.url}/a.wshard") as episode:
        np.testing.assert_array_equal(episode["small"], small)
    assert len(web.requests) <= 4
    assert web.sent <= small.nbytes + (128 << 10)


def test_keys_of_any_characters_are_folders_and_files(s3, tmp_path):
    names = ["a#b.bin", "per%20cent.bin", "ü ß.bin", "q?x=1&y.bin", "n" * 200 + ".bin"]
    (tmp_path / "in").mkdir()
    for name in names:
        (tmp_path / "in" / name).write_bytes(name.encode())
    folder = place_of(upload(s3, tmp_path / "in", "keys/of any/sort"))
    assert sorted(entry.name for entry in folder.entries()) == sorted(names)
    assert {file.name: file.read(0, 999) for file in folder.walk()} == {name: name.encode() for name in names}
    for name in names:
        forget()  # else it was seen in the listing
        assert (folder / name).status().size == len(name.encode())
    assert (folder.is_dir(), folder.parent.folders(), (folder / "none").exists()) == (True, [folder], False)
    for uri in (f"s3://{BUCKET}/a/../b", f"s3://{BUCKET}/a//b"):
        with pytest.raises(FormatError, match="expected a key without empty parts"):
            place_of(uri).status()


def test_an_object_that_was_replaced_is_read_anew_or_reported(s3, tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"first" * 50_000)
    place = place_of(upload(s3, path, "replaced/a.bin"))
    before = place.status()
    with place.open() as file:
        assert file.read(5) == b"first"
        path.write_bytes(b"other" * 50_000)
        upload(s3, path, "replaced/a.bin")
        file.seek(150_000)
        with pytest.raises(ObjectStoreError, match="was replaced meanwhile: open it again"):
            file.read(5)
    assert place.read(200_000, 200_005) == b"other"
    assert place.status().mtime_ns != before.mtime_ns


@pytest.mark.parametrize("fault", ["503", "reset", "short", "slow", "wrong range", "gzip"])
def test_faults_of_a_server_are_tried_again(fault, web, tmp_path):
    save(make_episode(3), tmp_path / "a.wshard")
    web.files["a.wshard"] = (tmp_path / "a.wshard").read_bytes()
    web.faults = [fault]
    assert_same_episode(load(f"{web.url}/a.wshard"), load(tmp_path / "a.wshard"))
    assert not web.faults


def test_redirects_to_another_host_are_followed(web, tmp_path):
    save(make_episode(3), tmp_path / "a.wshard")
    with serving_ranges() as other:
        other.files["a.wshard"] = web.files["a.wshard"] = (tmp_path / "a.wshard").read_bytes()
        web.faults = [f"redirect {other.url}"]
        assert_same_episode(load(f"{web.url}/a.wshard"), load(tmp_path / "a.wshard"))
        assert other.requests


@pytest.mark.parametrize("fault", ["wrong range", "gzip"])
def test_a_server_that_never_answers_right_is_reported(fault, web):
    web.files["a.bin"] = bytes(1000)
    web.faults = [fault] * 20
    with pytest.raises(ObjectStoreError, match=r"http://127.0.0.1:\d+/a.bin: expected "):
        place_of(f"{web.url}/a.bin").read(0, 10)


def test_what_is_wrong_with_a_store_is_said_in_a_line_without_credentials(s3, monkeypatch):
    for uri, message in {
        "s3://no-such-bucket/a": "no such bucket",
        f"s3://{BUCKET}/none": "no such object",
    }.items():
        with pytest.raises(FileNotFoundError, match=message) as found:
            place_of(uri).status()
        assert found.value.filename == uri
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASECRET")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "topsecret")
    client_of.cache_clear()
    forget()
    for ask in ("status", "exists", "is_dir"):
        with pytest.raises(ObjectStoreError, match=f"^s3://{BUCKET}/a: expected an answer .*connect") as failed:
            getattr(place_of(f"s3://{BUCKET}/a"), ask)()
        assert not any(word in str(failed.value) for word in ("AKIA", "topsecret", "\n"))
        assert failed.value.__suppress_context__
    for uri in ("https://user:topsecret@host/a", "https://host/a?X-Amz-Signature=topsecret"):
        with pytest.raises(FormatError, match="credentials are taken from the environment") as refused:
            place_of(uri)
        assert "topsecret" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "cause"),
    [
        (STRANGER, "AccessDenied"),
        ((STRANGER[0], "topsecret"), "SignatureDoesNotMatch"),
        (("AKIAGONE", "topsecret"), "InvalidAccessKeyId"),
    ],
)
def test_who_may_not_read_is_refused_in_a_line_also_what_is_on_disk(key, cause, s3, tmp_path, monkeypatch):
    (tmp_path / "a.bin").write_bytes(b"private")
    uri = upload(s3, tmp_path / "a.bin", "rights/a.bin")
    assert place_of(uri).read(0, 9) == b"private"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key[1])
    client_of.cache_clear()
    forget()
    for place in (place_of(uri), place_of(uri).parent):
        for ask in (place.exists, place.is_dir, place.whole, lambda place=place: [*place.walk()]):
            with pytest.raises(PermissionError, match="access denied: check the credentials in the environment") as no:
                ask()
            assert no.value.filename.startswith(f"s3://{BUCKET}/rights")
            assert not any(word in str(no.value) for word in (*key, "\n"))
    assert f"({cause})" in str(no.value)


def test_other_schemes_are_read_by_fsspec(tmp_path):
    save(make_episode(3), tmp_path / "a.wshard")
    files = fsspec.filesystem("memory")
    files.pipe("/b/c/a.wshard", (tmp_path / "a.wshard").read_bytes())
    forget()
    assert_same_episode(load("memory://b/c/a.wshard"), load(tmp_path / "a.wshard"))
    assert [str(file) for file in place_of("memory://b").walk()] == ["memory://b/c/a.wshard"]
    assert not place_of("memory://b/none").exists()


def test_without_the_library_it_is_said_what_to_install(monkeypatch):
    client_of.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(MissingExtraError, match=r"wshard\[cloud\]"):
        place_of(f"s3://{BUCKET}/a").status()
