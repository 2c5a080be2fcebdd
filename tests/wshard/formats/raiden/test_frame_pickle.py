"""Pickles of a timestep: arrays come out, and nothing else happens, whatever is in them."""

from __future__ import annotations

import os
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wshard import FormatError
from wshard.errors import LimitError, MissingFileError
from wshard.formats.raiden.frame_pickle import MAX_FRAME_SIZE, parse_frame, read_frame

GOOD = {"joints": np.arange(7, dtype=np.float32), "extrinsics": {"cam": np.eye(4)}, "text": np.array("a b", object)}


class Call:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


def test_arrays_and_texts_come_out_as_pickle_reads_them():
    for protocol in (3, 4):
        data = pickle.dumps(GOOD | {"F": np.asfortranarray(np.arange(6).reshape(2, 3)), "s": "t"}, protocol)
        found = parse_frame(data, "here")
        assert found["text"] == "a b"
        assert found["s"] == "t"
        assert found["joints"].dtype == np.float32
        assert found["joints"].tolist() == list(range(7))
        assert np.array_equal(found["extrinsics"]["cam"], np.eye(4))
        assert found["F"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert parse_frame(pickle.dumps({"big": np.arange(3, dtype=">i4")}, 4), "")["big"].tolist() == [0, 1, 2]
    older = pickle.dumps(GOOD, 4).replace(b"\x8c\x16numpy._core.multiarray", b"\x8c\x15numpy.core.multiarray")
    start = older.index(b"\x95") + 1
    older = older[:start] + struct.pack("<Q", len(older) - start - 8) + older[start + 8 :]
    assert parse_frame(older, "")["text"] == "a b"


def hostile(path):
    yield "system", pickle.dumps({"a": Call(os.system, f"touch {path}")})
    yield "open", pickle.dumps({"a": Call(open, str(path), "w")})
    yield "eval", pickle.dumps({"a": Call(eval, f"open({str(path)!r}, 'w')")})
    yield "getattr", pickle.dumps({"a": Call(getattr, "text", "__class__")})
    yield "load", pickle.dumps({"a": Call(np.load, str(path))})
    yield "protocol 0", b"cos\nsystem\n(S'touch " + str(path).encode() + b"'\ntR."
    yield "instance", b"(S'touch x'\nios\nsystem\n."
    yield "dotted name", b"\x80\x04\x8c\x05numpy\x8c\x0fndarray.__new__\x93."
    yield "another name of numpy", b"\x80\x04\x8c\x05numpy\x8c\x08fromfile\x93."
    yield "reconstruct elsewhere", b"\x80\x04\x8c\x05numpy\x8c\x0c_reconstruct\x93."
    yield "persistent id", b"\x80\x04\x8c\x01aQ."
    yield "extension", b"\x80\x04\x82\x01."
    yield "new object", b"\x80\x04\x8c\x05numpy\x8c\x07ndarray\x93\x8a\x06\x00\x00\x00\x00\x00\x01\x85\x81."
    yield "state of a type", b"\x80\x04}\x8c\x01a\x8c\x05numpy\x8c\x07ndarray\x93}\x8c\x03pwn\x8c\x01x\x73bs."
    yield "huge memo", b"\x80\x04}r\xff\xff\xff\x7f."
    yield "huge text", b"\x80\x04X\xff\xff\xff\x7fabc."
    yield "huge bytes", b"\x80\x04B\xff\xff\xff\xffabc."
    yield "huge frame", b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f}."
    yield "no dict", pickle.dumps([1])
    yield "number", pickle.dumps({"a": 1})
    yield "key", pickle.dumps({1: np.zeros(2)})
    yield "objects", pickle.dumps({"a": np.array([{}, {}], object)})
    yield "object", pickle.dumps({"a": np.array({}, object)})
    yield "fields", pickle.dumps({"a": np.zeros(2, [("x", "f4")])})
    yield "complex", pickle.dumps({"a": np.zeros(2, complex)})
    yield "nested", pickle.dumps({"a": {"b": {"c": np.zeros(2)}}})
    yield "deep", b"\x80\x04" + b"(" * 100_000 + b"t" * 100_000 + b"."
    yield "empty", b""
    yield "text", b"not a pickle"


def test_hostile_pickles_are_refused_and_do_nothing(tmp_path):
    path = tmp_path / "made"
    for name, data in hostile(path):
        tracemalloc.start()
        with pytest.raises(FormatError, match="here: expected a pickle of numpy arrays"):
            pytest.fail(f"{name}: {parse_frame(data, 'here')}")
        assert tracemalloc.get_traced_memory()[1] < 1 << 25, name
        tracemalloc.stop()
        assert not path.exists(), name


def test_arrays_of_other_sizes_than_their_bytes_are_refused():
    good = pickle.dumps({"a": np.zeros(7, np.float32)}, 4)
    assert good.count(b"K\x07\x85") == 1
    for wrong in (b"K\x08\x85", b"K\x06\x85", b"J\xff\xff\xff\x7f\x85", b"J\xff\xff\xff\xff\x85"):
        data = good.replace(b"K\x07\x85", wrong)
        start = data.index(b"\x95") + 1
        data = data[:start] + struct.pack("<Q", len(data) - start - 8) + data[start + 8 :]
        with pytest.raises(FormatError):
            parse_frame(data, "here")


def test_large_files_are_refused_unread(tmp_path):
    path = tmp_path / "0000000000.pkl"
    path.write_bytes(pickle.dumps({"a": np.zeros(MAX_FRAME_SIZE, np.uint8)}))
    with pytest.raises(LimitError):
        read_frame(path)
    with pytest.raises(MissingFileError):
        read_frame(tmp_path / "0000000001.pkl")


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_pickles_give_arrays_or_a_typed_error(data):
    good = bytearray(pickle.dumps(GOOD, 4))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parse_frame(bytes(good), "here")
    except FormatError:
        return
    assert all(isinstance(value, np.ndarray | dict | str) for value in found.values())
