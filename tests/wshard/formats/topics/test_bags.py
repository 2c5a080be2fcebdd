"""ROS 2 bags of the original programs: MCAP and SQLite storage give the same episode."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import shutil
import sqlite3
import tempfile

import mcap_ros2.decoder
import numpy as np
import pytest
import zstandard
from mcap.reader import make_reader

from wshard import FormatError, detect_format, open_episode, open_source
from wshard.errors import CodecError, LimitError, MissingFileError, UnsupportedFormatError
from wshard.formats.contract import SourceContract
from wshard.formats.topics import unpack_file
from wshard.formats.topics.source import Rosbag2Source
from wshard.testing import assert_same_episode

BAGS = ("talker", "wbag", "cdr_test")


@pytest.fixture
def bags(dataset_fixtures):
    return dataset_fixtures / "rosbag2"


@pytest.mark.parametrize("name", BAGS)
def test_both_storages_give_the_same_episode(bags, name):
    digests = []
    for storage in ("mcap", "sqlite3"):
        folder = bags / f"{storage}_{name}"
        assert detect_format(folder) == "rosbag2"
        with open_episode(folder) as episode:
            assert episode.id == name
            digests.append((episode.digest(), episode.load()))
    assert digests[0][0] == digests[1][0]
    assert_same_episode(digests[0][1], digests[1][1])


@pytest.mark.parametrize("name", BAGS)
def test_messages_are_those_that_the_library_of_ros2_reads(bags, name):
    rows = []
    for path in sorted((bags / f"mcap_{name}").glob("*.mcap")):
        with path.open("rb") as file:
            reader = make_reader(file, decoder_factories=[mcap_ros2.decoder.DecoderFactory()])
            rows += [(c.topic, m.log_time, decoded) for _, c, m, decoded in reader.iter_decoded_messages()]
    with open_episode(bags / f"sqlite3_{name}") as episode:
        topic = episode.metadata["clock"]["topic"]
        assert episode.lane("time/timestamps_ns").tolist() == [time for name_, time, _ in rows if name_ == topic]
        if name == "cdr_test":
            values = [one for name_, _, one in rows if name_ == topic]
            for field in ("bool_values", "float32_values", "int64_values", "uint64_values_default"):
                found = episode.lane(f"array_topic/{field}")
                assert found.tolist() == [list(getattr(value, field)) for value in values]
            nested = [[item.float64_value for item in value.defaults_values] for value in values]
            assert episode.lane("array_topic/defaults_values/float64_value").tolist() == nested
        else:
            texts = episode.metadata[f"{topic.strip('/')}/data"]
            found = [texts[number] for number in episode.lane(f"aux/text/{topic.strip('/')}/data")]
            expected = [one.data for name_, _, one in rows if name_ == topic]
            assert found == expected  # also messages that share a stamp


class TestTalkerContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _find(self, bags):
        self.bags = bags

    def make(self, tmp_path):
        with Rosbag2Source(self.bags / "mcap_talker") as other:
            return Rosbag2Source(self.bags / "sqlite3_talker"), {"": other.load("")}


@pytest.fixture
def copy(bags, tmp_path):
    def make(name):
        folder = tmp_path / name
        shutil.copytree(bags / name, folder, copy_function=shutil.copyfile)
        for path in [folder, *folder.iterdir()]:
            path.chmod(0o755)
        return folder

    return make


def test_a_single_sqlite_file_is_a_bag(copy):
    folder = copy("sqlite3_cdr_test")
    path = folder / "cdr_test_0.db3"
    assert detect_format(path) == "rosbag2"
    with open_episode(folder) as bag, open_episode(path) as alone:
        assert alone.digest() == bag.digest()


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("talker.db3", "../../etc/passwd", FormatError),
        ("talker.db3", "missing.db3", MissingFileError),
        ("    - talker.db3", "    - talker.db3\n    - ./talker.db3", FormatError),
        ("storage_identifier: sqlite3", "storage_identifier: other", UnsupportedFormatError),
        ('compression_mode: ""', 'compression_mode: "OTHER"', UnsupportedFormatError),
        ("  relative_file_paths:\n    - talker.db3", "  relative_file_paths: 5", FormatError),
        ("version: 4", "version: !!python/object/apply:os.system ['touch /tmp/x']", FormatError),
        ("version: 4", "version: &a [1, 2]\n  other: [*a, *a]", LimitError),
        ("version: 4", "version: [", FormatError),
    ],
)
def test_wrong_metadata_are_typed_errors(copy, old, new, error):
    folder = copy("sqlite3_talker")
    file = folder / "metadata.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(error, match=r"metadata\.yaml"), Rosbag2Source(folder) as source:
        source.info("")


def test_a_bag_that_names_one_file_very_often_is_refused_at_once(copy):
    folder = copy("sqlite3_talker")
    about = {"storage_identifier": "sqlite3", "relative_file_paths": ["talker.db3"] * 20_000}
    (folder / "metadata.yaml").write_text(json.dumps({"rosbag2_bagfile_information": about}))
    with pytest.raises(FormatError, match=r"found 'talker\.db3' again"), Rosbag2Source(folder) as source:
        source.info("")


def test_messages_that_were_compressed_one_by_one_are_read(copy):
    folder = copy("sqlite3_cdr_test")
    with open_episode(folder) as episode:
        expected = episode.load()
    with sqlite3.connect(folder / "cdr_test_0.db3") as base:
        rows = base.execute("SELECT id, data FROM messages").fetchall()
        packed = [(zstandard.compress(data), number) for number, data in rows]
        base.executemany("UPDATE messages SET data = ? WHERE id = ?", packed)
    base.close()
    about = folder / "metadata.yaml"
    text = about.read_text().replace('compression_format: ""', "compression_format: zstd")
    about.write_text(text.replace('compression_mode: ""', "compression_mode: MESSAGE"))
    with open_episode(folder) as episode:
        assert_same_episode(episode.load(), expected)


@pytest.mark.parametrize("name", ["sqlite3_cdr_test", "mcap_cdr_test"])
def test_files_that_were_compressed_as_a_whole_are_read(copy, tmp_path, monkeypatch, name):
    folder = copy(name)
    with open_episode(folder) as episode:
        expected = episode.load()
    (path,) = [one for one in folder.iterdir() if one.suffix in {".db3", ".mcap"}]
    packed = path.with_name(f"{path.name}.zstd")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    about = folder / "metadata.yaml"
    text = re.sub("compression_format: .*", "compression_format: zstd", about.read_text())
    about.write_text(re.sub("compression_mode: .*", "compression_mode: FILE", text).replace(path.name, packed.name))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with open_episode(folder) as episode:
        assert not any((tmp_path / "temporary").iterdir())
        assert_same_episode(episode.load(), expected)
    whole = packed.read_bytes()
    bomb = zstandard.compress(bytes(1 << 20))
    for data, most, error in (
        (whole[:-9], 1 << 34, CodecError),
        (b"no", 1 << 34, CodecError),
        (bomb, 1 << 16, LimitError),
    ):
        packed.write_bytes(data)
        monkeypatch.setattr(unpack_file, "MAX_UNPACKED", most)
        with pytest.raises(error, match=re.escape(packed.name)), Rosbag2Source(folder) as source:
            source.info("")
    assert not any((tmp_path / "temporary").iterdir())


def test_a_hostile_database_is_refused(copy):
    folder = copy("sqlite3_talker")
    path = folder / "talker.db3"
    with sqlite3.connect(path) as base:
        base.execute("ALTER TABLE messages RENAME TO real")
        base.execute(
            "CREATE VIEW messages AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
            "SELECT id, 1 AS topic_id, id AS timestamp, x'00' AS data FROM n"
        )
    base.close()
    with pytest.raises(FormatError, match="expected the tables"), Rosbag2Source(folder) as source:
        source.info("")


def test_damaged_databases_are_typed_errors(copy):
    folder = copy("sqlite3_cdr_test")
    path, rng = folder / "cdr_test_0.db3", np.random.default_rng(0)
    data = path.read_bytes()
    for _ in range(40):
        bad = bytearray(data)
        for place in rng.integers(0, len(data), 20):
            bad[place] = rng.integers(256)
        path.write_bytes(bad)
        try:
            with Rosbag2Source(folder) as source:
                source.load("").validate()
        except FormatError as error:
            assert "cdr_test" in str(error)  # noqa: PT017  (an error is one of two right answers)


def test_it_is_pickled_by_its_place(bags):
    with Rosbag2Source(bags / "mcap_talker") as source:
        expected = source.load("")
    with pickle.loads(pickle.dumps(source)) as again:  # noqa: S301  (our own)
        assert_same_episode(again.load(""), expected)


def test_files_of_a_bag_may_be_links_out_of_the_folder(copy, tmp_path):
    folder = copy("sqlite3_talker")
    with Rosbag2Source(folder) as source:
        expected = source.load("")
    (folder / "talker.db3").rename(tmp_path / "blob")
    (folder / "talker.db3").symlink_to(tmp_path / "blob")
    with Rosbag2Source(folder) as source:
        assert_same_episode(source.load(""), expected)


def test_messages_of_a_second_type_of_a_topic_are_named(copy):
    path = copy("sqlite3_cdr_test") / "cdr_test_0.db3"
    with open_episode(path) as plain:
        expected = {name: plain.lane(name) for name in plain}
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        rows = base.execute("SELECT * FROM topics ORDER BY id").fetchall()
        names = [column[1] for column in base.execute("PRAGMA table_info(topics)")]
        row = dict(zip(names, rows[0], strict=True)) | {"id": 1000, "type": "other_msgs/msg/Other"}
        base.execute(f"INSERT INTO topics VALUES ({', '.join('?' * len(names))})", [row[name] for name in names])
    with open_episode(path) as file:
        name, kind = rows[0][1].strip("/"), "other_msgs/msg/Other"
        assert f"those of {rows[0][2]} in cdr are read" in file.metadata["left_out"][f"{name} ({kind} in cdr)"]
        assert all(np.array_equal(file.lane(name), lane) for name, lane in expected.items())


@pytest.mark.parametrize(
    ("name", "kind", "magic"),
    [("a.mcap", "mcap", b"\x89MC"), ("b.bag", "rosbag1", b"#ROS"), ("c.db3", "rosbag2", b"SQL")],
)
def test_a_log_that_was_cut_within_its_first_bytes_is_one_that_fails(tmp_path, name, kind, magic):
    for content in (b"", magic):
        (tmp_path / name).write_bytes(content)
        assert detect_format(tmp_path / name) == kind
        with pytest.raises(FormatError, match="found other first bytes"), open_source(tmp_path / name, kind) as source:
            source.info(next(iter(source.keys())))
    (tmp_path / name).write_bytes(b"text")
    assert [detect_format(tmp_path / other) for other in (name, f"none{name}")] == ["", ""]
