"""The adapter for the Hugging Face Hub, against a folder that behaves as the client's documents say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import UserList
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from wshard import (
    HF_AVAILABLE,
    Channel,
    Episode,
    FormatError,
    HuggingFaceAdapter,
    download_from_hub,
    load_wshard,
    upload_to_hub,
)
from wshard.errors import EpisodeError, HubError, LaneError, MissingExtraError
from wshard.formats import huggingface
from wshard.testing import assert_same_episode, make_episode


class HubInAFolder:
    """The file calls of huggingface_hub.HfApi, with repositories as folders.

    As the client's reference documents them: create_repo with exist_ok leaves an existing repository alone, and fails
    without it; upload_folder is one commit that adds and overwrites files and deletes none; list_repo_files gives paths
    relative to the repository with "/"; hf_hub_download gives a local copy in the cache; an unknown repository or file
    is an error derived from OSError.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commits: list[tuple[str, int]] = []
        self.private: dict[str, bool] = {}
        self.downloads: list[str] = []

    def _repo(self, repo_id: str, repo_type: str) -> Path:
        folder = self.root / repo_type / repo_id
        if not folder.is_dir():
            raise OSError(f"404 Client Error: Repository Not Found: {repo_id}")
        return folder

    def create_repo(self, repo_id: str, *, repo_type: str, private: bool, exist_ok: bool) -> str:
        folder = self.root / repo_type / repo_id
        if not folder.exists():
            self.private[repo_id] = private
        folder.mkdir(parents=True, exist_ok=exist_ok)
        return f"https://huggingface.co/datasets/{repo_id}"

    def upload_folder(self, *, repo_id: str, repo_type: str, folder_path: str, commit_message: str) -> str:
        repo = self._repo(repo_id, repo_type)
        self.commits.append((commit_message, sum(path.is_file() for path in Path(folder_path).rglob("*"))))
        shutil.copytree(folder_path, repo, dirs_exist_ok=True)
        return "commit"

    def list_repo_files(self, repo_id: str, *, repo_type: str) -> list[str]:
        repo = self._repo(repo_id, repo_type)
        return [path.relative_to(repo).as_posix() for path in repo.rglob("*") if path.is_file()]

    def hf_hub_download(self, repo_id: str, filename: str, *, repo_type: str, cache_dir: str | None) -> str:
        source = self._repo(repo_id, repo_type) / filename
        if not source.is_file():
            raise OSError(f"404 Client Error: Entry Not Found: {filename}")
        target = Path(cache_dir or self.root / "cache", repo_id, filename)
        target.parent.mkdir(parents=True, exist_ok=True)
        self.downloads.append(filename)
        return str(shutil.copy(source, target))


@pytest.fixture
def hub(tmp_path):
    return HubInAFolder(tmp_path)


@pytest.fixture
def adapter(hub, tmp_path):
    return HuggingFaceAdapter("token", str(tmp_path / "my cache"), client=hub)


REPO = "someone/reach"


def test_episodes_come_back_as_they_were(adapter, hub):
    sent = [make_episode(seed) for seed in range(3)]
    url = adapter.upload_episodes(sent, REPO, private=True)
    assert url == "https://huggingface.co/datasets/someone/reach"
    assert hub.private == {REPO: True}
    assert sorted(hub.list_repo_files(REPO, repo_type="dataset")) == [
        "README.md",
        *(f"train/episodes/reach-000{seed}.wshard" for seed in range(3)),
        "train/metadata.json",
    ]
    assert adapter.list_episodes(REPO) == [ep.id for ep in sent]
    for found, ep in zip(adapter.download_episodes(REPO), sent, strict=True):
        assert_same_episode(found, ep)
    assert_same_episode(adapter.download_episode(REPO, "reach-0001"), sent[1])
    assert (hub.root / "my cache").is_dir()


def test_only_the_files_that_are_requested_are_fetched(adapter, hub):
    adapter.upload_episodes([make_episode(seed) for seed in range(5)], REPO, split="test")
    message: list[tuple[int, int]] = []
    found = adapter.download_episodes(
        REPO, "test", ["reach-0003", "reach-0001"], progress_callback=lambda *counts: message.append(counts)
    )
    assert [ep.id for ep in found] == ["reach-0003", "reach-0001"]
    assert hub.downloads == [f"test/episodes/{ep.id}.wshard" for ep in found]
    assert message == [(1, 2), (2, 2)]
    assert [ep.id for ep in adapter.download_episodes(REPO, "test", max_episodes=2)] == ["reach-0000", "reach-0001"]


def test_missing_files_are_reported(adapter):
    adapter.upload_episodes([make_episode()], REPO)
    for call in (
        lambda: adapter.download_episodes(REPO, "validation"),
        lambda: adapter.download_episodes(REPO, episode_ids=["nobody"]),
        lambda: adapter.download_episode(REPO, "nobody"),
        lambda: adapter.get_metadata(REPO, "validation"),
        lambda: adapter.list_episodes("someone/else"),
        lambda: adapter.upload_episode(make_episode(), "someone/else"),
        lambda: adapter.list_episodes(REPO, "../other"),
    ):
        with pytest.raises(OSError, match=r"someone|split|nobody|validation") as caught:
            call()
        assert isinstance(caught.value, HubError)


def test_uploads_are_split_into_commits(adapter, hub):
    message: list[int] = []
    adapter.upload_episodes(
        [make_episode(seed) for seed in range(7)],
        REPO,
        batch_size=3,
        commit_message="more",
        progress_callback=lambda done, _: message.append(done),
    )
    assert hub.commits == [("more", 3), ("more", 3), ("more", 1 + 2)]
    assert message == [1, 2, 3, 4, 5, 6, 7]
    adapter.upload_episode(make_episode(9), REPO)
    assert hub.commits[-1] == ("Upload episode reach-0009", 1)
    assert len(adapter.list_episodes(REPO)) == 8


def test_a_readme_that_is_there_stays(adapter, hub):
    adapter.upload_episodes([make_episode()], REPO)
    readme = hub.root / "dataset" / REPO / "README.md"
    program = readme.read_text().partition("```python\n")[2].partition("```")[0]
    assert program == (
        "from wshard import download_from_hub\n\nepisodes = download_from_hub('someone/reach', split='train')\n"
    )
    readme.write_text("own")
    adapter.upload_episodes([make_episode(1)], REPO)
    assert readme.read_text() == "own"


def test_metadata_describe_the_upload(adapter, hub):
    adapter.upload_episodes([make_episode(seed, T=10) for seed in range(2)], REPO, env_id="Other-v0")
    assert adapter.get_metadata(REPO) == {
        "format": "wshard",
        "format_version": "0.1",
        "env_id": "Other-v0",
        "split": "train",
        "num_episodes": 2,
        "compression": "zstd",
        "total_timesteps": 20,
        "observation_keys": ["joint_pos", "gripper"],
        "action_keys": ["ctrl"],
        "has_rewards": True,
    }
    for wrong in ("[]", "{", "[" * 100_000):
        (hub.root / "dataset" / REPO / "train" / "metadata.json").write_text(wrong)
        with pytest.raises(FormatError, match="JSON"):
            adapter.get_metadata(REPO)


@pytest.mark.parametrize("id_", ["../../evil", "a/b", ".hidden", "ü"])
def test_any_id_is_a_file_of_the_split(adapter, hub, id_):
    ep = replace(make_episode(), id=id_)
    url = adapter.upload_episode(ep, REPO) if hub.create_repo(
        REPO, repo_type="dataset", private=False, exist_ok=True) else ""  # fmt: skip
    assert "/blob/main/train/episodes/" in url
    (file,) = hub.list_repo_files(REPO, repo_type="dataset")
    assert Path(file).parent == Path("train/episodes")
    assert load_wshard(hub.root / "dataset" / REPO / file).id == id_
    assert_same_episode(adapter.download_episode(REPO, id_), ep)
    assert_same_episode(adapter.download_episodes(REPO, episode_ids=[id_])[0], ep)


@pytest.mark.parametrize("sent", [[], [make_episode(), make_episode()]])
def test_no_episodes_or_two_of_one_id_are_refused(adapter, sent):
    with pytest.raises(EpisodeError, match="different ids"):
        adapter.upload_episodes(sent, REPO)


class UnreachableError(Exception):
    """The network errors of some client versions derive from nothing better."""


class Offline(HubInAFolder):
    def list_repo_files(self, repo_id: str, *, repo_type: str) -> list[str]:
        raise UnreachableError(f"no route to {repo_type} {repo_id}")


def test_every_error_of_the_client_is_a_hub_error(tmp_path):
    with pytest.raises(HubError, match="list_repo_files someone/reach: no route to dataset") as caught:
        HuggingFaceAdapter(client=Offline(tmp_path)).list_episodes(REPO)
    assert isinstance(caught.value.__cause__, UnreachableError)


def test_the_token_comes_from_the_variable(monkeypatch, hub):
    outside, given = "from outside", "given"
    monkeypatch.setenv("HF_TOKEN", outside)
    assert HuggingFaceAdapter(client=hub).token == outside
    assert HuggingFaceAdapter(given, client=hub).token == given


def test_without_the_client_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    for call in (
        HuggingFaceAdapter,
        lambda: upload_to_hub([make_episode()], REPO),
        lambda: download_from_hub(REPO),
        lambda: HuggingFaceAdapter(client=HubInAFolder(Path())).to_hf_dataset([make_episode()]),
    ):
        with pytest.raises(ImportError, match="pip install") as caught:
            call()
        assert isinstance(caught.value, MissingExtraError)


def test_the_functions_use_an_adapter(monkeypatch, hub):
    secret = "t"  # noqa: S105  (of a folder)
    monkeypatch.setattr(huggingface, "_client", {secret: hub}.get)
    assert upload_to_hub([make_episode()], REPO, secret, split="a").endswith(REPO)
    assert [ep.id for ep in download_from_hub(REPO, token=secret, split="a")] == ["reach-0000"]


def test_the_client_is_not_imported_before_it_is_needed():
    program = (
        "import sys, wshard.formats.huggingface; print('huggingface_hub' in sys.modules, 'datasets' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    assert isinstance(HF_AVAILABLE, bool)


# ---- rows -----------------------------------------------------------------------------------------------------------


@dataclass
class Value:
    dtype: str


@dataclass
class List:
    feature: object


class Table(UserList):
    """Rows as a `datasets` table gives them: Python lists, and the dtypes in `features` only."""

    def __init__(self, columns: dict) -> None:
        names = list(columns)
        plain = {name: [getattr(value, "tolist", lambda v=value: v)() for value in columns[name]] for name in names}
        super().__init__(dict(zip(names, row, strict=True)) for row in zip(*plain.values(), strict=True))
        self.features = {name: self.feature(columns[name][0]) for name in names}

    @staticmethod
    def feature(value: object) -> object:
        feature: object = Value("string" if isinstance(value, str) else str(np.asarray(value).dtype))
        for _ in range(np.ndim(value)):
            feature = List(feature)
        return feature


@pytest.fixture
def tables(adapter, monkeypatch):
    """Return the adapter, with a `datasets` that makes such tables."""
    module = type(sys)("datasets")
    module.Dataset = type("Dataset", (), {"from_dict": staticmethod(Table)})
    monkeypatch.setitem(sys.modules, "datasets", module)
    return adapter


def as_rows_know_it(ep: Episode, *, flat: bool) -> Episode:
    timebase = Episode("").timebase
    return replace(ep, timebase=timebase, metadata={}, env_id="" if flat else ep.env_id)


@pytest.mark.parametrize("flat", [True, False])
def test_rows_and_back(tables, flat):
    sent = [
        replace(make_episode(seed, T=5 + seed, image_size=2 if seed < 9 else 0), truncations=np.zeros(5 + seed, bool))
        for seed in range(3)
    ]
    for ep in sent:
        ep.observations["camera/rgb"].modality = None
    found = tables.from_hf_dataset(tables.to_hf_dataset(sent, flat), flatten=flat)
    for left, right in zip(found, sent, strict=True):
        assert_same_episode(left, as_rows_know_it(right, flat=flat))


def test_names_stay_as_they_are_and_columns_are_the_documented_ones(tables):
    table = tables.to_hf_dataset([make_episode(T=2)])
    assert list(table[0]) == [
        "episode_id", "timestep", "obs_joint_pos", "obs_gripper", "action_ctrl", "reward", "terminated",
    ]  # fmt: skip
    assert [row["timestep"] for row in table] == [0, 1]
    (ep,) = tables.from_hf_dataset(table)
    assert list(ep.observations) == ["joint_pos", "gripper"]
    whole = tables.to_hf_dataset([make_episode(T=2)], flatten=False)
    assert list(whole[0]) == [
        "episode_id", "env_id", "length", "obs_joint_pos", "obs_gripper", "action_ctrl", "rewards", "terminations",
    ]  # fmt: skip


def test_rows_of_other_programs(adapter):
    rows = [
        {"ep": 7, "timestep": 1, "obs_x": [3, 4], "reward": 1.0},
        {"ep": 7, "timestep": 0, "obs_x": [1, 2], "reward": 0.0},
    ]
    (ep,) = adapter.from_hf_dataset(rows, "ep")
    assert (ep.id, ep.length) == ("7", 2)
    assert ep.observations["x"].data.tolist() == [[1, 2], [3, 4]]
    assert ep.rewards.tolist() == [0.0, 1.0]
    (ep,) = adapter.from_hf_dataset([{"obs_x": [1.0, 2.0, 3.0]}], flatten=False)
    assert (ep.id, ep.length) == ("episode_0", 3)


def test_rows_that_are_not_episodes_are_reported(adapter):
    for rows, message in (
        ([{"obs_x": 1}], "episode_id"),
        ([{"episode_id": "a", "obs_x": [1, 2]}, {"episode_id": "a", "obs_x": [1]}], "obs_x"),
        ([{"episode_id": "a", "obs_x": 1}, {"episode_id": "a"}], "same columns"),
    ):
        with pytest.raises(LaneError, match=message):
            adapter.from_hf_dataset(rows)


def test_episodes_that_make_no_table_are_refused(tables):
    ep = make_episode()
    other = replace(ep, observations={"x": Channel.of("x", np.zeros(20))})
    with pytest.raises(EpisodeError, match="not in every episode"):
        tables.to_hf_dataset([ep, other])
    wide = replace(ep, actions={"ctrl": Channel.of("ctrl", np.zeros((20, 9), np.float32))})
    with pytest.raises(EpisodeError, match="one dtype and shape"):
        tables.to_hf_dataset([ep, wide])
    assert len(tables.to_hf_dataset([ep, wide], flatten=False)) == 2
