"""The verbs convert, export and doctor: texts and exit codes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from wshard.cli.convert import convert, export
from wshard.cli.doctor import OPTIONAL, REQUIRED, doctor
from wshard.episode.file import load_wshard, save_wshard
from wshard.formats.base import open_source
from wshard.formats.convert import load
from wshard.testing import assert_same_episode, make_episode
from wshard.types import Format

app = typer.Typer()
for verb in (convert, export, doctor):
    app.command()(verb)


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def episode(tmp_path):
    save_wshard(make_episode(T=400), tmp_path / "ep.wshard")
    return tmp_path / "ep.wshard"


def test_convert_tells_what_it_did(episode, tmp_path):
    out = tmp_path / "out.npz"
    assert run("convert", episode, out) == (
        0,
        f"converted  {episode}  ->  {out}\n           wshard  ->  dreamerv3  (400 timesteps)\n",
        "",
    )
    assert np.array_equal(load(out).rewards, make_episode(T=400).rewards)
    plain, again = tmp_path / "plain.wshard", tmp_path / "again"
    assert run("convert", out, plain)[0] == 0
    assert run("convert", out, again, "--output-format", "shard", "--compression", "zstd")[0] == 0
    assert load_wshard(again).length == 400
    assert again.stat().st_size < plain.stat().st_size
    assert run("convert", again, tmp_path / "third.bin", "--input-format", "wshard", "--output-format", "NPZ")[0] == 0


def test_convert_encodes_cameras(tmp_path):
    save_wshard(make_episode(T=20, image_size=16), tmp_path / "raw.wshard")
    encoded = tmp_path / "encoded.wshard"
    assert run("convert", tmp_path / "raw.wshard", encoded, "--encode", "png")[0] == 0
    found = load_wshard(encoded)
    assert found == make_episode(T=20, image_size=16)
    assert [one.encoded.encoding for one in found.observations.values() if one.encoded] == ["png"]
    assert run("convert", encoded, tmp_path / "again.npz")[0] == 0
    code, _, error = run("convert", tmp_path / "raw.wshard", encoded, "--encode", "gif")
    assert code != 0
    assert "expected such as 'jpeg:90'" in " ".join(error.split())


def test_the_file_that_was_written_is_told_where_the_format_adds_its_suffix(episode, tmp_path):
    told = run("convert", episode, tmp_path / "plain", "--output-format", "dreamerv3")[1]
    assert told.startswith(f"converted  {episode}  ->  {tmp_path / 'plain.npz'}\n")
    told = run("export", episode, "--format", "dreamerv3", "--output", tmp_path / "other.dat")[1]
    assert told == f"exported  {episode}  ->  {tmp_path / 'other.dat.npz'}  (dreamerv3)\n"
    assert load(tmp_path / "plain.npz").length == load(tmp_path / "other.dat.npz").length == 400


def test_the_episodes_of_a_replay_folder_are_converted_into_a_folder(dataset_fixtures, tmp_path):
    folder, out = dataset_fixtures / "other" / "dreamerv3_replay", tmp_path / "out"
    arguments = ("--input-format", "dreamerv3", "--output-format", "wshard")
    code, told, _ = run("convert", folder, out, *arguments)
    assert (code, told.splitlines()[1].strip()) == (0, "dreamerv3  ->  wshard  (2 episodes, 14 timesteps)")
    with open_source(folder, "dreamerv3") as source:
        for key in list(source.keys()):
            expected = replace(source.load(key), metadata={}, blocks={}, source_format=Format.WSHARD)
            assert_same_episode(replace(load_wshard(out / f"{key}.wshard"), metadata={}, blocks={}), expected)
    code, told, err = run("convert", folder, out, *arguments)
    assert (code, told, err.splitlines()[-1]) == (1, "", "0 of 2 episodes were converted")
    damaged = min(out.iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1])
    code, _, err = run("convert", out, tmp_path / "again", "--input-format", "wshard", "--output-format", "npz")
    assert (code, err.splitlines()[-1]) == (1, "1 of 2 episodes were converted")
    assert [path.suffix for path in (tmp_path / "again").iterdir()] == [".npz"]


def test_a_replay_file_of_several_episodes_needs_a_folder(tmp_path):
    replay = tmp_path / "replay.npz"
    np.savez(replay, obs=np.zeros((5, 2)), is_first=[True, False, True, True, False])
    code, out, err = run("convert", replay, tmp_path / "one.wshard")
    assert (code, out) == (1, "")
    assert "expected a folder for the 3 episode(s)" in err
    assert run("export", replay, "-f", "wshard")[0] == 1
    (tmp_path / "there").mkdir()
    assert run("export", replay, "-f", "wshard", "-o", tmp_path / "there")[0] == 0
    assert sorted(load_wshard(path).length for path in (tmp_path / "there").iterdir()) == [1, 2, 2]
    assert run("convert", replay, tmp_path / "new", "--output-format", "zarr")[0] == 2
    assert not (tmp_path / "new").exists()


def test_folders_and_collections_say_what_takes_them(episode, tmp_path):
    for arguments, told in (
        (("convert", tmp_path, tmp_path / "out"), "name the format of its files"),
        (("convert", episode, tmp_path), "name the format of its files"),
        (("export", tmp_path, "-f", "npz"), "wshard convert"),
        (("export", "collection:x", "-f", "npz"), "wshard export-list NAME"),
        (("convert", "collection:x", tmp_path / "x.npz"), "wshard export-list NAME"),
    ):
        code, out, err = run(*arguments)
        assert code > 0, arguments
        assert out == ""
        assert told in " ".join(err.replace("│", " ").split()), arguments
    assert [path.name for path in tmp_path.iterdir()] == ["ep.wshard"]


def test_export_chooses_the_name(episode, tmp_path):
    expected = tmp_path / "ep.npz"
    assert run("export", episode, "-f", "dreamer") == (0, f"exported  {episode}  ->  {expected}  (dreamerv3)\n", "")
    assert load(expected).length == 400
    other = tmp_path / "other.npz"
    assert run("export", episode, "--format", "npz", "-o", other)[0] == 0
    assert other.exists()


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


def test_export_does_not_come_back_to_its_input_by_the_suffix_that_is_added(episode, tmp_path):
    replay = tmp_path / "replay.npz"
    assert run("convert", episode, replay)[0] == 0
    before = replay.read_bytes()
    code, out, err = run("export", replay, "-f", "npz", "-o", tmp_path / "replay")
    assert (code, out) == (2, "")
    assert "overwritten" in err
    assert replay.read_bytes() == before


@pytest.mark.parametrize("name", ["tdmpc2", "tdmpc", "d4rl"])
def test_formats_that_are_not_there_are_a_wrong_usage(episode, tmp_path, name):
    for arguments in (
        ("convert", episode, tmp_path / "x.npz", "--input-format", name),
        ("convert", episode, tmp_path / "x", "--output-format", name),
        ("export", episode, "-f", name),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert "not implemented" in err
    assert [path.name for path in tmp_path.iterdir()] == ["ep.wshard"]


def test_unknown_formats_are_a_wrong_usage(episode, tmp_path):
    for arguments in (
        ("convert", episode, tmp_path / "x", "--output-format", "zarr"),
        ("export", episode, "-f", "zarr"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert "unknown format 'zarr'" in err
    assert run("export", episode)[0] == 2
    assert run("convert", episode)[0] == 2


def test_errors_are_one_line(episode, tmp_path):
    damaged = tmp_path / "damaged.wshard"
    damaged.write_bytes(episode.read_bytes()[:-1])
    for arguments in (
        ("convert", tmp_path / "nothing.npz", tmp_path / "x.wshard"),
        ("convert", tmp_path / "nothing", tmp_path / "x.wshard"),
        ("convert", damaged, tmp_path / "x.npz"),
        ("convert", episode, tmp_path / "unknown"),
        ("convert", episode, tmp_path / "no folder" / "x.npz"),
        ("convert", episode, tmp_path / "x.npz", "--compression", "zstd"),
        ("export", tmp_path / "nothing.wshard", "-f", "npz"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (1, ""), arguments
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        if "nothing" in str(arguments[1]):
            assert "nothing" in err
            assert "No such file" in err
    assert not (tmp_path / "x.npz").exists()


def test_doctor_lists_everything():
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    named = [line.split()[0] for line in out.splitlines()]
    assert named == ["wshard", "python", *REQUIRED, *OPTIONAL]
    assert f"numpy            {np.__version__}" in out


def test_doctor_fails_where_something_required_is_missing(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in ("lz4", "torch") else object())
    code, out, err = run("doctor")
    assert code == 1
    assert "lz4              MISSING (required)" in out
    assert "torch            not installed (optional)" in out
    assert err == "error: missing: lz4: pip install lz4\n"
