"""The JSON section, tags, and manifests whose references are proved before they are used."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from wshard import FormatError, ShardReader, ShardStreamWriter, ShardWriter, open_manifest, write_manifest
from wshard.cli.files import app
from wshard.core.container.manifest import inside
from wshard.core.container.metadata import EntryMeta, ManifestFileRef, ManifestProfile, SampleProfile, ShardMetadata
from wshard.errors import (
    ChecksumError,
    HeaderError,
    LimitError,
    ManifestError,
    MetadataError,
    MissingFileError,
    RecordingStateError,
)

EVERYTHING = {
    "schema_version": "shard-v2.1",
    "schema_uri": "https://example.org/schema",
    "schema_id": "0123456789abcdef",
    "created_at": "2026-01-02T03:04:05Z",
    "source_uri": "s3://bucket/source",
    "producer": "test",
    "description": "all keys",
    "tags": ["a", "b"],
    "tag_dictionary": ["train", "val"],
    "extra": {"layers": 12, "nested": {"x": [1, 2.5, None]}},
    "profile": "sampleshard.v1",
    "sample_shard": {
        "dataset_name": "mnist",
        "sample_id_type": "uint64",
        "key_encoding": "decimal-string",
        "sample_count": 60000,
        "dataset_schema": {"input": "u8"},
        "splits": {"train": {"start": 0}},
        "label_map": {"0": "zero"},
        "feature_stats": {"input": {"mean": 0.13}},
        "later_key": [1],
    },
    "manifest": {
        "files": [{"uri": "a.shard", "sha256": "00", "role": "sample", "profile": "p", "start_key": "0", "end_key": "9",
                   "entry_count": 10, "later_key": True}],
        "partitions": {"train": ["a.shard"]},
        "later_key": None,
    },
    "entry_metadata": {
        "weight": {
            "content_type": "tensor/float32", "tags": ["train"], "description": "d", "extra": {"k": 1}, "codec": "c",
            "codec_version": "2", "schema_fingerprint": "f", "semantic_type": "tensor", "canonical_hash": "h",
            "base_hash": "b", "row_count": 256, "shape": [256, 256], "stats": {"min": -1.0}, "later_key": "later",
        }
    },
    "key_of_a_later_version": {"stays": ["as", "it", "is"]},
}  # fmt: skip


def with_section(text: bytes, offset: int | None = None) -> bytes:
    """Return a container of one block with this JSON section, which may lie about its place."""
    file = io.BytesIO()
    with ShardWriter(file) as writer:
        writer.write_entry("a", b"payload")
    data = bytearray(file.getvalue())
    struct.pack_into("<QQ", data, 32, len(data) if offset is None else offset, len(data) + len(text))
    return bytes(data) + text


# ---- reading -------------------------------------------------------------------------------------------------------


def test_every_key_of_the_section_is_read_typed_and_written_back_unchanged():
    """C-31."""
    about = ShardReader(with_section(json.dumps(EVERYTHING, indent=2).encode())).read_metadata()
    assert isinstance(about, ShardMetadata)
    assert about.sample_shard == SampleProfile(
        "mnist", "uint64", "decimal-string", 60000, {"input": "u8"}, {"train": {"start": 0}}, {"0": "zero"},
        {"input": {"mean": 0.13}}, {"later_key": [1]},
    )  # fmt: skip
    assert about.manifest.files[0] == ManifestFileRef("a.shard", "00", "sample", "p", "0", "9", 10, {"later_key": True})
    assert about.entry_metadata["weight"].shape == [256, 256]
    assert about.entry_metadata["weight"].unknown == {"later_key": "later"}
    assert about.tags == ["a", "b"]
    written = about.to_json()
    assert json.loads(written) == EVERYTHING
    assert b": " not in written
    assert ShardMetadata.from_json(written) == about


def test_empty_keys_are_left_out_and_null_means_empty():
    assert json.loads(ShardMetadata().to_json()) == {"schema_version": "shard-v2.1"}
    found = ShardReader(with_section(b'{"tags": null, "manifest": null}')).read_metadata()
    assert found == ShardMetadata()
    assert ShardReader(with_section(b"", offset=0)).read_metadata() is None


WRONG = {
    "not JSON": (b"{", "expected UTF-8 JSON"),
    "not UTF-8": (b'{"producer": "\xff"}', "expected UTF-8 JSON"),
    "nested deeply": (b"[" * 100_000, "expected UTF-8 JSON"),
    "a list": (b"[]", "expected an object"),
    "text for a list": (b'{"tags": "a"}', "tags: expected list"),
    "numbers for words": (b'{"tag_dictionary": [1]}', "tag_dictionary: expected a list of str"),
    "true for a number": (b'{"sample_shard": {"sample_count": true}}', "sample_shard: sample_count: expected int"),
    "text in a shape": (b'{"entry_metadata": {"a": {"shape": ["1"]}}}', "'a': shape: expected a list of int"),
    "a number for an entry": (b'{"entry_metadata": {"a": 1}}', "'a': expected an object"),
    "a number for a file": (b'{"manifest": {"files": [1]}}', r"files\[0\]: expected an object"),
    "a list for an object": (b'{"extra": []}', "extra: expected dict"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_sections_are_refused_with_the_key_and_blocks_stay_readable(name):
    """C-31."""
    text, said = WRONG[name]
    reader = ShardReader(with_section(text))
    with pytest.raises(MetadataError, match=said):
        reader.read_metadata()
    assert reader.read_entry("a") == b"payload"


@pytest.mark.parametrize("offset", [1, 63, 64, 10**6, 2**64 - 1])
def test_sections_outside_the_file_or_inside_its_front_are_refused(offset):
    """C-30."""
    with pytest.raises(MetadataError, match="JSON section: expected it inside"):
        ShardReader(with_section(b"{}", offset)).read_metadata()


def test_huge_sections_are_refused_before_they_are_read():
    """C-30."""
    with pytest.raises(LimitError, match="at most 67108864 bytes"):
        ShardReader(with_section(b" " * ((1 << 26) + 1))).read_metadata()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*EVERYTHING, "shape"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*EVERYTHING, "other"]), json_values))
def test_any_json_is_read_or_refused_by_our_own_error(value):
    text = json.dumps(value).encode()
    try:
        about = ShardMetadata.from_json(text)
    except MetadataError:
        return
    try:
        again = about.to_json()
    except MetadataError:
        return
    assert ShardMetadata.from_json(again) == about
    assert len(about.compute_schema_id()) == 16


# ---- writing, tags -------------------------------------------------------------------------------------------------


def schema_id(about: dict) -> str:
    """Compute it as the documents say, from the JSON alone."""
    hasher = hashlib.sha256()
    for word in about.get("tag_dictionary", []):
        hasher.update(word.encode() + b"\0")
    for name in sorted(about.get("entry_metadata", {})):
        entry = about["entry_metadata"][name]
        for word in (name, entry.get("content_type", ""), entry.get("semantic_type", "")):
            hasher.update(word.encode() + b"\0")
    return hasher.hexdigest()[:16]


@pytest.mark.parametrize("kind", [ShardWriter, ShardStreamWriter])
def test_section_and_tags_are_written_and_found_again(kind, tmp_path):
    """C-32, C-33."""
    path = tmp_path / "a.shard"
    marked = {"x": EntryMeta(tags=["val", "word"], content_type="text", semantic_type="label")}
    with kind(path) as writer:
        writer.set_metadata(ShardMetadata(tag_dictionary=["train", "val"], entry_metadata=marked))
        if kind is ShardStreamWriter:
            writer.begin_data()
        writer.write_entry("b", b"2", tags=["new", "train"], content_type=5)
        writer.write_entry("x", b"3", tags=["train"])
        writer.write_entry("y", b"")
    with ShardReader(path) as reader:
        about = reader.read_metadata()
        assert about.tag_dictionary == ["train", "val", "new"]
        assert {entry.name: entry.tag_bits for entry in reader.entries} == {"b": 0b101, "x": 0b011, "y": 0}
        assert reader.list_with_tag("train") == reader.list_with_tag_fast("train") == ["b", "x"]
        assert reader.list_with_tag("word") == ["x"]
        assert reader.list_with_tag_fast("word") == reader.list_with_tag("never") == []
        assert reader.list_with_tag_bit(2) == ["b"]
        assert reader.list_with_tag_bit(16) == reader.list_with_tag_bit(-1) == []
        header, last = reader.header, reader.entries[-1]
        text = path.read_bytes()[header.schema_offset :]
        assert header.schema_offset == last.data_offset + last.disk_size
        assert header.flags == 0xB2 | (0x40 if kind is ShardStreamWriter else 0)
        assert json.loads(text)["schema_id"] == schema_id(json.loads(text)) == about.compute_schema_id()
        assert [reader.read_entry(name) for name in "bxy"] == [b"2", b"3", b""]


def test_a_given_schema_id_is_preserved_and_none_is_invented():
    for about, expected in ((ShardMetadata(schema_id="own", tag_dictionary=["t"]), "own"), (ShardMetadata(), "")):
        file = io.BytesIO()
        with ShardWriter(file) as writer:
            writer.set_metadata(about)
        assert ShardReader(file.getvalue()).read_metadata().schema_id == expected


def test_files_without_metadata_and_tags_have_no_section():
    file = io.BytesIO()
    with ShardWriter(file) as writer:
        writer.write_entry("a", b"1")
    reader = ShardReader(file.getvalue())
    assert (reader.header.schema_offset, reader.header.flags) == (0, 0x22)
    assert reader.list_with_tag("a") == []


def test_what_the_section_cannot_hold_is_refused_and_leaves_no_file(tmp_path):
    path = tmp_path / "a.shard"
    wrong = [{"extra": {"a": float("nan")}}, {"extra": {"a": object()}}, {"tag_dictionary": ["a", "a"]}]
    wrong += [{"extra": {1: "a", "1": "b"}}, {"tag_dictionary": [str(number) for number in range(17)]}]
    for fields in wrong:
        with pytest.raises(MetadataError), ShardWriter(path) as writer:
            writer.set_metadata(ShardMetadata(**fields))
    assert list(tmp_path.iterdir()) == []


def test_a_seventeenth_tag_is_refused_and_spoils_nothing(tmp_path):
    with ShardStreamWriter(tmp_path / "a.shard") as writer:
        writer.begin_data()
        for number in range(16):
            writer.write_entry(f"{number:02d}", b"", tags=[f"t{number}"])
        with pytest.raises(LimitError, match="at most 16 different tags"):
            writer.write_entry("z", b"", tags=["t16"])
        writer.write_entry("zz", b"", tags=["t15"])
        with pytest.raises(RecordingStateError):
            writer.set_metadata(ShardMetadata())
    assert ShardReader(tmp_path / "a.shard").list_with_tag("t15") == ["15", "zz"]


def test_new_tags_come_in_the_order_of_writing():
    file = io.BytesIO()
    with ShardWriter(file) as writer:
        for name in ("b", "a"):
            writer.write_entry(name, b"", tags=[f"tag of {name}"])
    assert ShardReader(file.getvalue()).read_metadata().tag_dictionary == ["tag of b", "tag of a"]


# ---- manifests -----------------------------------------------------------------------------------------------------


@pytest.fixture
def data_set(tmp_path):
    """Return the manifest of two files, one of them in a folder below."""
    (tmp_path / "set" / "below").mkdir(parents=True)
    for name, count in (("a.shard", 2), ("below/b.shard", 3)):
        with ShardWriter(tmp_path / "set" / name, 2) as writer:
            for number in range(count):
                writer.write_entry(f"sample/{number}", f"{name} {number}".encode())
    path = tmp_path / "set" / "manifest.shard"
    ranged = ManifestFileRef("below/b.shard", start_key="2", end_key="10")
    write_manifest(path, [tmp_path / "set" / "a.shard", ranged], partitions={"train": ["a.shard"]})
    return path


def rewritten(path, **fields: object) -> None:
    """Change fields of the first reference."""
    about = ShardReader(path).read_metadata()
    first = dataclasses.replace(about.manifest.files[0], **fields)
    with ShardWriter(path, 4) as writer:
        writer.set_metadata(dataclasses.replace(about, manifest=ManifestProfile([first])))


def test_a_manifest_states_and_opens_what_it_refers_to(data_set):
    """M-1 to M-4."""
    manifest = open_manifest(data_set)
    raw = json.loads(data_set.read_bytes()[ShardReader(data_set).header.schema_offset :])
    assert raw["profile"] == "manifest.v1"
    assert [file["uri"] for file in raw["manifest"]["files"]] == ["a.shard", "below/b.shard"]
    assert [file["entry_count"] for file in raw["manifest"]["files"]] == [2, 3]
    for file in raw["manifest"]["files"]:
        assert file["sha256"] == hashlib.sha256((data_set.parent / file["uri"]).read_bytes()).hexdigest()
        assert file["role"] == "sample"
    assert manifest.partitions == {"train": ["a.shard"]}
    with manifest.open(manifest.files[1]) as reader:
        assert reader.read_entry("sample/2") == b"below/b.shard 2"
    assert [error for _, error in manifest.verify()] == [None, None]


def test_verify_and_inspect_know_manifests(data_set):
    """M-2: `wshard verify` checks the files behind a manifest, `wshard inspect` shows which they are."""
    runner = CliRunner()
    assert runner.invoke(app, ["verify", str(data_set)]).exit_code == 0
    shown = json.loads(runner.invoke(app, ["inspect", str(data_set), "--json"]).stdout)
    assert [file["uri"] for file in shown["section"]["manifest"]["files"]] == ["a.shard", "below/b.shard"]
    assert "below/b.shard" in runner.invoke(app, ["inspect", str(data_set)]).stdout
    (data_set.parent / "a.shard").write_bytes(b"other")
    output = runner.invoke(app, ["verify", str(data_set)])
    assert output.exit_code == 1
    assert output.stdout.startswith(f"FAIL  'a.shard': {data_set}: 'a.shard': SHA-256 mismatch")


def test_keys_of_digits_are_found_as_numbers(data_set):
    """M-4."""
    manifest = open_manifest(data_set)
    found = {key: [file.uri for file in manifest.find(key)] for key in ("1", "2", "9", "0010", "11")}
    assert found == {"1": [], "2": ["below/b.shard"], "9": ["below/b.shard"], "0010": ["below/b.shard"], "11": []}


def test_a_changed_file_is_refused_before_it_is_used(data_set):
    """M-2."""
    (data_set.parent / "a.shard").write_bytes(b"not even a container")
    manifest = open_manifest(data_set)
    with pytest.raises(ChecksumError, match="SHA-256 mismatch"):
        manifest.open(manifest.files[0])
    (data_set.parent / "below" / "b.shard").unlink()
    first, second = (error for _, error in manifest.verify())
    assert isinstance(first, ChecksumError)
    assert isinstance(second, MissingFileError)
    assert str(second) == f"{data_set}: expected the file {data_set.parent / 'below' / 'b.shard'}, found none"


@pytest.mark.parametrize(
    "uri",
    ["../a.shard", "below/../../a.shard", "/etc/passwd", "", ".", "a.shard/", "./a.shard", "below//b.shard", "c:/a",
     "file:///etc/passwd", "s3://bucket/a", "..\\a.shard", "a\0b"],
)  # fmt: skip
def test_references_that_leave_the_folder_are_refused(uri, data_set):
    """M-1."""
    rewritten(data_set, uri=uri)
    manifest = open_manifest(data_set)
    with pytest.raises(ManifestError, match="uri: expected a relative path inside the folder"):
        manifest.open(manifest.files[0])
    with pytest.raises(ManifestError):
        inside(data_set.parent, uri, "here")


def test_links_that_leave_the_folder_are_refused(data_set, tmp_path):
    """M-1."""
    (tmp_path / "secret.shard").write_bytes((data_set.parent / "a.shard").read_bytes())
    (data_set.parent / "link.shard").symlink_to(tmp_path / "secret.shard")
    (data_set.parent / "away").symlink_to(tmp_path)
    for uri in ("link.shard", "away/secret.shard"):
        rewritten(data_set, uri=uri)
        manifest = open_manifest(data_set)
        with pytest.raises(ManifestError, match="is a link that leaves the folder"):
            manifest.open(manifest.files[0])


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"sha256": ""}, ManifestError, "sha256: expected 64 hex digits"),
        ({"sha256": "0" * 64}, ChecksumError, "SHA-256 mismatch"),
        ({"entry_count": 3}, ManifestError, "expected 3 blocks, found 2"),
        ({"entry_count": -1}, ManifestError, "entry_count: expected 0 or more"),
        ({"role": "wshard"}, HeaderError, r"expected role 5 \(wshard\), found 2"),
        ({"start_key": "10", "end_key": "9"}, ManifestError, "expected start_key <= end_key"),
    ],
)
def test_references_that_are_not_true_are_refused(fields, kind, said, data_set):
    """M-2 to M-4."""
    rewritten(data_set, **fields)
    manifest = open_manifest(data_set)
    with pytest.raises(kind, match=said):
        manifest.open(manifest.files[0])


def test_a_manifest_without_hashes_is_used_only_on_request(data_set):
    """M-2."""
    rewritten(data_set, sha256="")
    manifest = open_manifest(data_set, require_sha256=False)
    assert len(manifest.open(manifest.files[0])) == 2


def test_other_containers_are_not_manifests(data_set):
    with pytest.raises(HeaderError, match=r"role: expected 4 \(a manifest\)"):
        open_manifest(data_set.parent / "a.shard")
    with ShardWriter(data_set.parent / "empty.shard", 4):
        pass
    with pytest.raises(ManifestError, match="expected a JSON section with the key manifest"):
        open_manifest(data_set.parent / "empty.shard")


def test_files_outside_the_folder_cannot_be_put_into_a_manifest(data_set, tmp_path):
    (tmp_path / "outside.shard").write_bytes((data_set.parent / "a.shard").read_bytes())
    with pytest.raises(ManifestError, match="expected files inside"):
        write_manifest(data_set.parent / "m.shard", [tmp_path / "outside.shard"])
    (data_set.parent / "empty.shard").touch()
    with pytest.raises(FormatError):
        write_manifest(data_set.parent / "m.shard", [data_set.parent / "empty.shard"])
    assert not (data_set.parent / "m.shard").exists()
