"""Data sets of the Hugging Face Hub are downloaded by its own client, here from a server of this machine."""

from __future__ import annotations

import json
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from local_server import run_server
from world_model_sets import make_columns, write_hdf5, write_lance

from wshard.data import HDF5Writer, LeRobotAdapter, convert, load_dataset
from wshard.errors import SourceNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("huggingface_hub")
COMMIT = "a" * 40


class Hub(BaseHTTPRequestHandler):
    """Answers as the Hub does, with the repositories of a folder."""

    root: Path
    failing = ""
    requests: list[str]

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        api = path.startswith("/api/")
        parts = path.removeprefix("/api").split("/")  # "", "datasets", USER, NAME, ...
        repo = self.root / "/".join(parts[2:4])
        type(self).requests.append(path)
        if not repo.is_dir():
            self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif api:
            files = [file for file in sorted(repo.rglob("*")) if file.is_file()]
            names = [file.relative_to(repo).as_posix() for file in files]
            info = {"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            tree = [
                {"type": "file", "path": name, "size": file.stat().st_size, "oid": sha256(name.encode()).hexdigest()}
                for name, file in zip(names, files, strict=True)
            ]
            self._answer(200, json.dumps(tree if parts[4:5] == ["tree"] else info).encode())
        elif self.failing and path.endswith(self.failing):
            self._answer(403, b"{}")
        else:
            data = (repo / "/".join(parts[6:])).read_bytes()
            self._answer(200, data, {"ETag": f'"{sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT})

    def _answer(self, status, data, headers=None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    class Handler(Hub):
        root = tmp_path / "hub"
        requests: ClassVar[list[str]] = []

    for name in ("HF_HOME", "STABLEWM_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("HF_HUB_OFFLINE", "HF_LEROBOT_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with run_server(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield Handler


def repository(hub, name):
    folder = hub.root / name
    folder.mkdir(parents=True)
    return folder


def test_a_repository_is_downloaded_once_and_only_the_set_in_it(hub, tmp_path):
    folder = repository(hub, "me/both")
    write_lance(folder / "t.lance", make_columns((5, 3), pixels=8))
    write_hdf5(folder / "t.h5", make_columns((4,), pixels=0))
    assert load_dataset("me/both").lengths.tolist() == [5, 3]
    assert sorted(path.name for path in (tmp_path / "STABLEWM_HOME" / "datasets" / "me--both").iterdir()) == ["t.lance"]
    count = len(hub.requests)
    assert load_dataset("me/both")[0]["pixels"].shape == (1, 3, 8, 8)
    assert len(hub.requests) == count
    write_hdf5(repository(hub, "me/file") / "t.h5", make_columns((4,), pixels=0))
    assert load_dataset("me/file", cache_dir=tmp_path / "other").lengths.tolist() == [4]
    assert (tmp_path / "other" / "datasets" / "me--file" / "t.h5").is_file()


def test_an_interrupted_download_is_no_data_set(hub):
    folder = repository(hub, "me/table")
    write_lance(folder / "t.lance", make_columns((5,), pixels=0))
    hub.failing = next(path.name for path in (folder / "t.lance" / "data").iterdir())
    with pytest.raises(SourceNotFoundError, match=r"Cannot resolve 'me/table': .* expected a data set of the Hugging"):
        load_dataset("me/table")
    hub.failing = ""
    assert load_dataset("me/table").lengths.tolist() == [5]


def test_names_that_cannot_be_repositories_ask_nobody(hub, tmp_path):
    (tmp_path / "work" / "data").mkdir()
    for name in ("data/none", "data/none.h5", "none.lance", "./me/none", "a/b/c"):
        with pytest.raises(SourceNotFoundError, match="Cannot resolve"):
            load_dataset(name)
    assert hub.requests == []
    with pytest.raises(SourceNotFoundError, match="Cannot resolve 'me/none'"):
        load_dataset("me/none")
    assert hub.requests


def test_lerobot_sets_are_downloaded_and_converted(hub, tmp_path):
    rng = np.random.default_rng(0)
    with HDF5Writer(tmp_path / "robot.h5") as writer:
        for length in (6, 4):
            rows = {"observation.state": rng.normal(size=(length, 3)), "action": rng.normal(size=(length, 2))}
            writer.write_episode(rows | {"observation.images.top": np.zeros((length, 16, 16, 3), np.uint8)})
    convert(tmp_path / "robot.h5", hub.root / "me" / "robot", dest_format="lerobot", progress=False)
    keys = ["pixels", "action", "proprio", "ep_idx", "step_idx"]
    camera = {"primary_camera_key": "observation.images.top"}
    options = {"keys_to_load": keys, "keys_to_cache": keys[1:], **camera}
    data = load_dataset("lerobot://me/robot", num_steps=2, **options)
    assert isinstance(data, LeRobotAdapter)
    assert data[7]["pixels"].shape == (2, 3, 16, 16)
    assert (data[7]["ep_idx"].tolist(), data[7]["step_idx"].tolist()) == ([1, 1], [2, 3])
    place = convert(
        "lerobot://me/robot", tmp_path / "local", source_format="lerobot", dest_format="video", progress=False, **camera
    )
    assert load_dataset(place).lengths.tolist() == [6, 4]
    with pytest.raises(SourceNotFoundError, match="me/none: expected a data set of the Hugging Face Hub"):
        load_dataset("lerobot://me/none")
