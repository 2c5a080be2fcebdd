"""Options that a public function hands on: a misspelt one is refused by the name of the function, with the nearest."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_episodes import episode, files, save

import wshard
from wshard.data import ClipLoader, HDF5Writer, convert, get_scaler, load_dataset


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Return an open archive of two episodes, in the folder that they are in."""
    place = tmp_path_factory.mktemp("options")
    save(place / "data", episode(0, 0, 20), episode(1, 0, 20))
    with HDF5Writer(place / "one.h5") as writer:
        writer.write_episode({"action": np.zeros((8, 2), np.float32)})
    with wshard.open_archive(place / "data" / "archive", create=True) as opened:
        opened.ingest(place / "data")
        yield opened


CALLS = {
    "search": (lambda lab, _, **wrong: lab.search("x", **wrong), "topk", "top_k"),
    "search of a retriever": (lambda lab, _, **wrong: lab.retriever().search("x", **wrong), "wher", "where"),
    "moments": (lambda lab, _, **wrong: lab.moments("x", **wrong), "per_episodes", "per_episode"),
    "ingest": (lambda lab, place, **wrong: lab.ingest(place, **wrong), "embeder", "embedder"),
    "check": (lambda lab, _, **wrong: lab.check(**wrong), "camera", "cameras"),
    "duplicates": (lambda lab, _, **wrong: lab.duplicates(**wrong), "withing", "within"),
    "evaluate": (lambda lab, _, **wrong: lab.evaluate("task", **wrong), "progres", "progress"),
    "dataset": (lambda lab, _, **wrong: lab.dataset("", **wrong), "num_step", "num_steps"),
    "HDF5Dataset": (lambda _, place, **wrong: load_dataset(place.parent / "one.h5", **wrong), "num_step", "num_steps"),
    "SourceDataset": (lambda _, place, **wrong: load_dataset(files(place)[0], format="wshard", **wrong), "zz", ""),
    "HDF5Dataset of convert": (
        lambda _, place, **wrong: convert(place.parent / "one.h5", place / "new.h5", **wrong), "frame_skip", "frameskip"
    ),
    "ClipLoader": (
        lambda _, place, **wrong: ClipLoader(load_dataset(place.parent / "one.h5"), **wrong), "batchsize", "batch_size"
    ),
    "get_scaler": (lambda *_, **wrong: get_scaler(**wrong), "epps", "eps"),
    "open_sink": (lambda _, place, **wrong: wshard.open_sink(place / "a.lance", "lance", **wrong), "qualty", "quality"),
    "open_sink of HDF5": (
        lambda _, place, **wrong: wshard.open_sink(place / "a.h5", "robomimic", **wrong), "compres", "compression"
    ),
    "download_from_hub": (lambda *_, **wrong: wshard.download_from_hub("a/b", **wrong), "splt", "split"),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_misspelt_option_is_refused_with_the_nearest(lab, call):
    function, wrong, nearest = CALLS[call]
    advice = f"did you mean '{nearest}'" if nearest else "there are .*keys_to_load, "
    with pytest.raises(TypeError, match=f"^{call.partition(' ')[0]}: unexpected option '{wrong}': {advice}"):
        function(lab, lab.folder.parent, **{wrong: 1})
