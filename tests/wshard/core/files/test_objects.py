"""Objects of a real S3 server, and of a web server that fails, are read as files are: the same data, or an error."""

from __future__ import annotations

from datetime import timedelta

import fsspec
import numpy as np
import pytest
from local_server import run_server
from object_stores import BUCKET, STRANGER, RangeServer, upload
from sink_places import make_episode

from wshard import Episode, FormatError, load, open_episode, save
from wshard.core.files import object_client
from wshard.core.files.object_client import client_of
from wshard.core.files.objects import forget
from wshard.core.files.schemes import place_of
from wshard.errors import MissingExtraError, ObjectStoreError
from wshard.testing import assert_same_episode


@pytest.fixture
def web(monkeypatch, tmp_path):
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "cache of objects"))
    forget()
    with run_server(RangeServer()) as server:
        yield server


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return the bytes of an episode that does not compress, and its lanes: one is of 50 MB, 16 are small."""
    rng = np.random.default_rng(0)
    lanes = {f"lane{n}": rng.standard_normal((500, 7)) for n in range(16)}
    lanes["large"] = np.frombuffer(rng.bytes(50_000_000), np.uint8).reshape(500, -1)
    path = tmp_path_factory.mktemp("large") / "a.wshard"
    save(Episode("big", "arm", 500, observations=lanes, actions={"action": rng.standard_normal((500, 2))}), path)
    return path.read_bytes(), lanes


@pytest.mark.parametrize("name", ["lane7", "large"])
def test_a_lane_costs_few_requests_and_few_more_bytes_than_it_has(name, web, large, monkeypatch):
    web.files[f"{BUCKET}/a.wshard"], lanes = large
    monkeypatch.setenv("AWS_ENDPOINT_URL", web.url)
    client_of.cache_clear()
    with open_episode(f"s3://{BUCKET}/a.wshard") as episode:
        assert np.array_equal(episode[name], lanes[name])
    assert len(web.requests) <= 4
    assert web.sent <= lanes[name].nbytes + (128 << 10)
    client_of.cache_clear()


def test_lanes_are_fetched_together(web, large):
    web.files["a.wshard"], lanes = large
    web.delay = 0.05
    names = [f"lane{n}" for n in range(16)]
    with open_episode(f"{web.url}/a.wshard") as opened:
        found = opened.load(names).observations
    assert [name for name in names if np.array_equal(found[name].data, lanes[name])] == names
    assert web.round_trips() <= 3


def test_an_answer_that_stalls_goes_on_in_another(web, monkeypatch):
    monkeypatch.setattr(object_client, "_STALL", timedelta(seconds=0.2))
    client_of.cache_clear()
    web.files["a.bin"] = bytes(range(250)) * 800
    web.faults = ["stall", "stall"]
    assert place_of(f"{web.url}/a.bin").read(0, 1 << 20) == web.files["a.bin"]
    assert [span for _, span in web.requests[1:]] == [f"bytes={start}-199999" for start in (0, 1000, 2000)]
    client_of.cache_clear()


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
    longest = "/".join(["k" * 204] * 5)
    (tmp_path / "a").write_bytes(b"deep")
    assert len(longest) == 1024
    assert place_of(upload(s3, tmp_path / "a", longest)).read(0, 9) == b"deep"
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
    with run_server(RangeServer()) as other:
        other.files["a.wshard"] = web.files["a.wshard"] = (tmp_path / "a.wshard").read_bytes()
        web.faults = [f"redirect {other.url}"]
        assert_same_episode(load(f"{web.url}/a.wshard"), load(tmp_path / "a.wshard"))
        assert other.requests


@pytest.mark.parametrize("target", ["ftp://127.0.0.1", "file:///etc"])
def test_redirects_to_another_scheme_are_not(target, web):
    web.files["passwd"] = bytes(1000)
    web.faults = [f"redirect {target}"] * 20
    with pytest.raises(ObjectStoreError, match=r"^http://127.0.0.1:\d+/passwd: expected an answer [^\n]*$"):
        place_of(f"{web.url}/passwd").read(0, 10)


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


def test_an_expired_token_is_said_wherever_it_shows(web, monkeypatch):
    for name, value in {"ENDPOINT_URL": web.url, "ACCESS_KEY_ID": "AKIA", "SECRET_ACCESS_KEY": "secret"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "oldtoken")
    client_of.cache_clear()
    place = place_of(f"s3://{BUCKET}/a.bin")
    for ask in (place.status, lambda: place.read(0, 5), lambda: [*place.parent.entries()]):
        forget()
        web.faults = ["expired"]
        with pytest.raises(PermissionError, match="the session token in the environment has expired: get a new") as no:
            ask()
        assert "oldtoken" not in str(no.value)
    client_of.cache_clear()


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_google_is_read_by_the_endpoint_in_the_environment(scheme, web, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", web.url.replace("http://", scheme))
    web.files["lab/a#b.bin"] = bytes(range(200))
    client_of.cache_clear()
    assert place_of("gs://lab/a#b.bin").read(10, 12) == bytes([10, 11])
    client_of.cache_clear()


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("az://lab/a", "expected the account in AZURE_STORAGE_ACCOUNT_NAME"),
        ("gs://lab/a", "Unable to decode service account file: missing field"),
    ],
)
def test_what_misses_in_the_environment_is_said_in_a_line(uri, message, monkeypatch, tmp_path):
    (tmp_path / "account.json").write_text('{"type": "service_account", "private_key": "topsecret"}')
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    client_of.cache_clear()
    with pytest.raises(OSError, match=message) as found:
        place_of(uri).status()
    assert "\n" not in str(found.value)
    assert "topsecret" not in str(found.value)
    assert uri.removesuffix("/a") in str(found.value)


def test_a_key_with_a_line_break_is_named(web, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", web.url)
    web.files["devstoreaccount1/lab/a\nb.bin"] = b"data"
    client_of.cache_clear()
    with pytest.raises(FormatError, match=r"^az://lab/: expected keys without .* found 'a\\nb.bin': rename it$"):
        [*place_of("az://lab").entries()]
    client_of.cache_clear()


def test_etags_of_azure_have_quotation_marks_in_headers_only(web, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", web.url)
    web.files["devstoreaccount1/lab/a.bin"] = bytes(range(200))
    client_of.cache_clear()
    (entry,) = place_of("az://lab").entries()
    listed = place_of("az://lab") / entry.name
    fingerprint = listed.status()
    assert listed.read(10, 12) == bytes([10, 11])
    forget()
    assert place_of("az://lab/a.bin").status() == fingerprint
    client_of.cache_clear()


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
