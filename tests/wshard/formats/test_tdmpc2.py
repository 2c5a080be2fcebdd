"""TD-MPC2 files are read without executing a pickle, as torch and tensordict write them."""

from __future__ import annotations

import base64
import lzma
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

from wshard import Channel, Episode, FormatError, TrajectoryIngestor, detect_format
from wshard.formats.contract import SourceContract
from wshard.formats.tdmpc2 import TDMPC2Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

torch = pytest.importorskip("torch")

BY_TENSORDICT = (
    "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4Ap0A39dACgSvGAn5w2LqFIxa3I63sHdVb2bGT7lQ2ExfKWaJuOlcPDsYusMvGzMWE2t"
    "vyeD+ugoZyiZNR5rQH/dnSWklpTO5oBjURZ8y/5F+7E3aDjypYAogN71g+ozd1psH4Oc98CLMDpWhiqZZOXdF7tqGqdwW0S5GNsJ"
    "ZkTrfVTm9lswdgFrdkV4T9KEkQpzJ6PisZXjqwiU209sg2gJkZ5K0ekp83ILlnzb244jhE9Zg1jgv0i4GH93pbEpRh2h/djnX9sf"
    "zq6LQQQuoj6XapQM3SKWydLpRjT7wJ7Ng/fu+0umCj670/TWNFem3fOwYW8gHsJVPIZRn3PJmhANzSPY5vDWczdr84RH3Hl89JpH"
    "h5J8rj0Yb6hEdnSY5rAc89yX2wAp0xrE3fW25kBfnkLRx+k2h50LwIMBdSC3i/+EIuELHlQhQqlv74k/+D9GBzjF+gJ9+BKx0m2o"
    "/b0NNWE0QSHfsDGBPftomflZMCeAMwhUbMGJftz8DJskdDmjCIgMTAp9quM/D2vleJQe7Nj1mYyAMzn0BGC/Wd56Ex1JgwwRdhyU"
    "6b+gAW52akPFxbd4vdLbEt7hNpUfcglh+pkFSdEMD+dMOBIbiPVKFAe2zbuBPPSmDnv5E34PdL8bCHHbs/dHlqk2fxnH3eBCtbdD"
    "J38sJWgI9DVR3zcyYTSJQvxonroAF5ijMVyYRW2CQuasx//dnawNO7XSOUO2yGWbB9bnoq9gbA1+WL6DkIA7j9cEnjdziX3Bd6fg"
    "JJxum3a3wi01l5CYfqgklqYIMdG0LfXBjopePn3ef48PMCO5Vgdzfpni7JwLgOvxDQ0YoLfW0IKxxXQD/jLpI3BcGX39u2qf11Dp"
    "M+XkQKaEfVkLZJH8RKqeHmT25l1Cd/izquQMkK+055rUlo9R2+DN6vxdgRrAFrc2UdXPPcr+TMkPqNMXajN/5Vc8REBjC2CnDQmT"
    "tKfl82GNrcyKNzAjtenxtJVNRnt4rpO6RYXYRMibp/kLyJw5PwvGmLbqSf/BdXyN7bZAQbrwjyK0J7t1bbC5j8UCO/0Y13mgobxk"
    "cyi/AbOZ4dPQ0Xca+pAcBqJNK5bARqOUmhEiLEoBbNjC22z8AoZAlb1pEW/Wud/2QBj08WKaIc4rUOVvPDZYxgfl3eJq40tD1iJI"
    "IAXruYI8mlko5gbrccHekilcpimuMBckGrsAAM0E5Inh97K/AAGbB/UUAAB0A0OsscRn+wIAAAAABFla"
)
"""A file that tensordict 0.15.3 wrote: two episodes of five rows, numbers counted up, first actions and rewards NaN."""


def expected(number: int, task: int | None = None) -> Episode:
    """Return an episode of that file."""
    obs = np.arange(30, dtype=np.float32).reshape(2, 5, 3)[number]
    action = np.arange(20, dtype=np.float32).reshape(2, 5, 2)[number]
    return Episode(
        f"episode_{number}",
        length=4,
        observations={"obs": Channel.of("obs", obs[:4])},
        actions={"action": Channel.of("action", action[1:])},
        rewards=np.arange(10, dtype=np.float32).reshape(2, 5)[number, 1:],
        metadata={"final_observation": {"obs": obs[4].tolist()}} | ({} if task is None else {"task_index": task}),
    )


def save_plain(path: Path, **changes: object) -> Path:
    tensors = {
        "obs": torch.arange(30.0).reshape(2, 5, 3),
        "action": torch.arange(20.0).reshape(2, 5, 2),
        "reward": torch.arange(10.0).reshape(2, 5, 1),
    }
    torch.save(tensors | changes, path)
    return path


class TestTensorDict(SourceContract):
    def make(self, tmp_path: Path) -> tuple[TDMPC2Source, Mapping[str, Episode]]:
        path = tmp_path / "data.pt"
        path.write_bytes(lzma.decompress(base64.b64decode("".join(BY_TENSORDICT))))
        return TDMPC2Source(path), {str(number): expected(number, number) for number in range(2)}


class TestPlainTensors(SourceContract):
    def make(self, tmp_path: Path) -> tuple[TDMPC2Source, Mapping[str, Episode]]:
        path = save_plain(tmp_path / "data.pt")
        return TDMPC2Source(path), {str(number): expected(number) for number in range(2)}


def test_a_file_of_one_episode_has_no_key(tmp_path):
    path = tmp_path / "one.pt"
    torch.save({"obs": torch.zeros(3, 2), "action": torch.zeros(3, 1), "reward": torch.zeros(3)}, path)
    with TDMPC2Source(path) as source:
        assert list(source.keys()) == [""]
        assert source.load("").length == 2


def test_a_file_is_detected_ingested_and_loaded(tmp_path):
    path = save_plain(tmp_path / "data.pt")
    assert detect_format(path) == "tdmpc2"
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        report = ingestor.ingest(tmp_path)
        assert (report.new, report.failed) == (2, [])
        assert ingestor.ingest(path).unchanged == 2


class Attack:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('executed')",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"obs": Attack()}, "expected a file of tensors"),
        ({"obs": [1, 2]}, "found no obs"),
        ({"obs": None, "action": None, "reward": None}, "found no obs, action, reward"),
        ({"action": "x"}, "found no action"),
        ({"obs": np.zeros(3)}, "expected a file of tensors"),
    ],
)
def test_anything_else_than_tensors_is_refused(tmp_path, content, message):
    path = save_plain(tmp_path / "bad.pt", **content)
    with TDMPC2Source(path) as source, pytest.raises(FormatError, match=message):
        source.keys()


def test_damaged_files_are_refused(tmp_path):
    whole = save_plain(tmp_path / "data.pt").read_bytes()
    for number, data in enumerate(
        (b"", whole[:100], whole[:-30], pickle.dumps(Attack()), whole.replace(b"obs", b"obz"))
    ):
        path = tmp_path / f"{number}.pt"
        path.write_bytes(data)
        with TDMPC2Source(path) as source, pytest.raises(FormatError, match=path.name):
            source.keys()
    for shapes in ({"reward": torch.zeros(2, 4)}, {"obs": torch.zeros(2, 0, 3)}, {"action": torch.zeros(1, 5, 2)}):
        with (
            TDMPC2Source(save_plain(tmp_path / "shapes.pt", **shapes)) as source,
            pytest.raises(FormatError, match="two"),
        ):
            source.keys()
