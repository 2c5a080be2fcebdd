"""The verbs demo, export and doctor: texts and exit codes."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from wshard import Episode, load, load_wshard, save_wshard
from wshard.cli.convert import export
from wshard.cli.demo import demo
from wshard.cli.doctor import _PACKAGE_OF_MODULE, OPTIONAL, REQUIRED, doctor
from wshard.testing import assert_same_episode, make_episode

app = typer.Typer()
for verb in (demo, export, doctor):
    app.command()(verb)


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def episode(tmp_path):
    save_wshard(make_episode(T=400), tmp_path / "ep.wshard")
    return tmp_path / "ep.wshard"


def test_several_episodes_need_a_folder(tmp_path):
    replay = tmp_path / "replay.npz"
    np.savez(replay, obs=np.zeros((5, 2)), is_first=[True, False, True, True, False])
    code, out, err = run("export", replay, "-f", "wshard")
    assert (code, out) == (1, "")
    assert "expected a folder for the 3 episode(s)" in err
    (tmp_path / "there").mkdir()
    assert run("export", replay, "-f", "wshard", "-o", tmp_path / "there")[0] == 0
    assert sorted(load_wshard(path).length for path in (tmp_path / "there").iterdir()) == [1, 2, 2]


def test_folders_and_unknown_formats_are_a_wrong_usage(episode, tmp_path):
    for arguments, words in (
        (("export", tmp_path, "-f", "npz"), "wshard convert"),
        (("export", episode, "-f", "nosuch"), "nosuch"),
        (("export", episode), "--format"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert words in " ".join(err.replace("│", " ").split()), arguments
    assert [path.name for path in tmp_path.iterdir()] == ["ep.wshard"]


def test_export_does_not_come_back_to_its_input_by_the_suffix_that_is_added(episode, tmp_path):
    replay = tmp_path / "replay.npz"
    assert run("export", episode, "-f", "npz", "-o", replay)[0] == 0
    before = replay.read_bytes()
    code, out, err = run("export", replay, "-f", "npz", "-o", tmp_path / "replay")
    assert (code, out) == (2, "")
    assert "overwritten" in err
    assert replay.read_bytes() == before


def test_errors_are_one_line(episode, tmp_path):
    damaged = tmp_path / "damaged.wshard"
    damaged.write_bytes(episode.read_bytes()[:-1])
    for path in (tmp_path / "nothing.wshard", damaged):
        code, out, err = run("export", path, "-f", "npz")
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1


def test_export_chooses_the_name(episode, tmp_path):
    expected = tmp_path / "ep.npz"
    assert run("export", episode, "-f", "dreamer") == (0, f"exported  {episode}  ->  {expected}  (dreamerv3)\n", "")
    assert load(expected).length == 400
    other = tmp_path / "other.npz"
    assert run("export", episode, "--format", "npz", "-o", other)[0] == 0
    assert other.exists()


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("zarr", ".zarr"), ("lance", ".lance"), ("shardpack", ".shardpack"), ("hdf5", ".h5"), ("folder", "")],
)
def test_export_names_the_output_by_its_format(tmp_path, name, suffix):
    rows = np.zeros((4, 2), np.float32)
    save_wshard(Episode("e", length=4, observations={"state": rows}), tmp_path / "e.wshard")
    code, _, err = run("export", tmp_path / "e.wshard", "-f", name)
    assert (code, err) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == {"e.wshard", f"e{suffix}"}


def test_export_never_overwrites_its_input(episode, tmp_path):
    link = tmp_path / "link.wshard"
    link.symlink_to(episode)
    before = episode.read_bytes()
    for arguments in (("-f", "wshard"), ("-f", "wshard", "-o", link), ("-f", "npz", "-o", episode)):
        code, out, err = run("export", episode, *arguments)
        assert (code, out) == (2, "")
        assert "overwritten" in err
    assert episode.read_bytes() == before
    assert run("export", episode, "-f", "wshard", "--compression", "zstd", "-o", tmp_path / "c.wshard")[0] == 0
    assert_same_episode(load_wshard(tmp_path / "c.wshard"), make_episode(T=400))


def test_doctor_lists_everything():
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    named = [line.split()[0] for line in out.splitlines()]
    assert named == ["wshard", "python", "pages", *REQUIRED, *OPTIONAL]
    assert f"numpy            {np.__version__}" in out


def test_doctor_lists_the_libraries_of_every_extra():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = {_PACKAGE_OF_MODULE.get(module, module).lower() for module in (*REQUIRED, *OPTIONAL)}
    for extra in extras.keys() - {"all", "app", "dev", "demo", "docs", "bench", "web-build"}:
        for requirement in extras[extra]:
            name = re.match(r"[\w-]+", requirement)[0].lower()
            assert {name, name.replace("-", "_")} & named, (extra, requirement)


def test_doctor_fails_where_something_required_is_missing(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in ("lz4", "torch") else object())
    code, out, err = run("doctor")
    assert code == 1
    assert "lz4              MISSING (required)" in out
    assert "torch            not installed (optional)" in out
    assert err == "error: missing: lz4: pip install lz4\n"


def test_sample_episodes_need_a_new_folder(tmp_path):
    assert run("demo", tmp_path / "new")[0] == 0
    assert len(list((tmp_path / "new").glob("*.wshard"))) == 41
    code, out, _ = run("demo", tmp_path / "new")
    assert (code, "already" in out, "next: wshard ingest" in out) == (0, True, True)
    (tmp_path / "new" / "wave-07.wshard").unlink()
    code, _, err = run("demo", tmp_path / "new")
    assert (code, err) == (1, f"error: expected a new folder, found {tmp_path / 'new'}: name another one\n")


@pytest.mark.parametrize("name", ["bridge.py", "catalog/__init__.py", "embedders.py"])
def test_doctor_names_a_module_of_the_users_that_hides_a_package(tmp_path, monkeypatch, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("doctor", "--json")
    (problem,) = json.loads(out)["problems"]
    assert code == 1
    assert problem.startswith(f"{tmp_path / name} hides the package {name.split('.')[0].split('/')[0]} of wshard")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "below").mkdir()
    monkeypatch.chdir("below")
    assert json.loads(run("doctor", "--json")[1])["problems"] == [problem]


def test_samples_below_an_archive_are_offered_one_of_their_own(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert "next: wshard ingest a\n" in run("demo", "a")[1]
    (tmp_path / ".wshard").mkdir()
    (tmp_path / ".wshard" / "catalog.db").touch()
    assert "next: cd b && wshard ingest . --archive .wshard\n" in run("demo", "b")[1]
