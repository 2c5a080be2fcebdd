"""Networks from local weights: the same vectors from module, TorchScript and ONNX; what is refused, what is stored.

Skipped where torch is not installed: it comes with the extra "torch".
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from functools import partial

import numpy as np
import pytest

from embedders import (
    Embedder,
    LaneSpec,
    Pictures,
    Space,
    Statistics,
    TorchModule,
    WindowPlan,
    embedder_of,
    make_embedder,
)
from embedders.base import takes_frames
from embedders.testing import EmbedderContract
from embedders.window_batches import Cuts
from wshard import TrajectoryIngestor, TrajectoryRetriever, load_wshard, save_wshard
from wshard.errors import EmbedderError, UnknownEmbedderError
from wshard.testing import make_episode

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'wshard[torch]'")
nn = torch.nn

FROZEN = Statistics(9, np.zeros(5), np.full(5, 2.0))


def of_vectors(seed=3):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Dropout(), nn.Linear(16, 7))


def of_pictures(seed=3):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Tanh(), nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Tokens(nn.Module):
    """Answer with three tokens per timestep: the input, twice the input, minus the input; beside something else."""

    def forward(self, batch: object) -> object:
        return torch.stack([batch, 2 * batch, -batch], dim=1), "more"


class Returning(nn.Module):
    """Answer with a fixed value."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, batch: object) -> object:
        return self.answer(batch)


class Fixed(EmbedderContract):
    """The contract gives a fresh embedder per call; a network is made from a seed, so that all are the same."""


class TestOfVectors(Fixed):
    def make(self) -> TorchModule:
        return TorchModule(of_vectors())


class TestOfVectorsInOrder(Fixed):
    def make(self) -> TorchModule:
        return TorchModule(of_vectors(), batch=7, coefficients=4, stride=3)


class TestOfPictures(Fixed):
    shape = (18, 12)

    def make(self) -> TorchModule:
        return TorchModule(of_pictures(), pictures=Pictures((8, 8)), batch=16)


def walks(*lengths: int):
    return [np.random.default_rng(length).normal(size=(length, 5)).cumsum(axis=0) for length in lengths]


def script(module, example, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whatever torch thinks of its own ways to write the file
        torch.jit.trace(module.eval(), example).save(str(path))
    return path


def to_onnx(module, path):
    """Write the two linear layers of `of_vectors` as an ONNX file."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'wshard[onnx]'")
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415  (optional)

    state = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["hidden"], transB=1),
        helper.make_node("Tanh", ["hidden"], ["bent"]),
        helper.make_node("Gemm", ["bent", "w1", "b1"], ["y"], transB=1),
    ]
    names = {"w0": "0.weight", "b0": "0.bias", "w1": "3.weight", "b1": "3.bias"}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 7])],
        [numpy_helper.from_array(state[source], name) for name, source in names.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))
    return path


def expected_vectors(windows, *, stride=1):
    network = of_vectors().eval()
    rows = []
    for window in windows:
        z = np.clip((window - FROZEN.mean) / FROZEN.std, -5, 5)[::stride]
        answers = [network(torch.tensor(row, dtype=torch.float32)).detach().numpy() for row in z]
        rows.append(np.mean(answers, axis=0))
    return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("stride", [1, 4])
def test_a_vector_is_the_mean_of_the_answers_for_every_timestep(stride):
    windows = walks(1, 40, 7, 200)
    found = TorchModule(of_vectors(), stride=stride, batch=33).embed(windows, FROZEN)
    np.testing.assert_allclose(found, expected_vectors(windows, stride=stride), atol=1e-6)


def test_module_state_dict_script_and_onnx_give_the_same_vectors(tmp_path):
    windows = walks(40, 7)
    expected = expected_vectors(windows)
    torch.save(of_vectors().state_dict(), tmp_path / "weights.pt")
    kinds = [
        TorchModule(of_vectors()),
        TorchModule(of_vectors(seed=9), tmp_path / "weights.pt"),
        TorchModule(str(script(of_vectors(), torch.zeros(2, 5), tmp_path / "net.ts"))),
        make_embedder("torchmodule", {"model": str(to_onnx(of_vectors(), tmp_path / "net.onnx"))}),
    ]
    for embedder in kinds:
        assert isinstance(embedder, Embedder)
        np.testing.assert_allclose(embedder.embed(windows, FROZEN), expected, atol=1e-5)
        assert embedder.dim(5) == 7
    assert kinds[0].parameters() == kinds[1].parameters()
    for embedder, name in ((kinds[2], "net.ts"), (kinds[3], "net.onnx")):
        assert embedder.parameters()["sha256"] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()


def test_the_weights_decide_over_the_parameters_and_their_place_does_not(tmp_path):
    assert TorchModule(of_vectors(1)).parameters() != TorchModule(of_vectors(2)).parameters()
    assert TorchModule(of_vectors(1), batch=9).parameters() == TorchModule(of_vectors(1)).parameters()
    first = script(of_vectors(), torch.zeros(2, 5), tmp_path / "net.ts")
    second = tmp_path / "elsewhere.ts"
    second.write_bytes(first.read_bytes())
    assert TorchModule(str(first)).parameters() == TorchModule(str(second)).parameters()
    half = of_vectors().to(torch.bfloat16)
    assert half.state_dict()["0.weight"].dtype == torch.bfloat16
    assert TorchModule(half).parameters()["sha256"] != TorchModule(of_vectors()).parameters()["sha256"]


def test_training_a_module_further_does_not_change_its_embedder():
    module = of_vectors()
    embedder = TorchModule(module)
    before = embedder.embed(walks(9), FROZEN)
    with torch.no_grad():
        module[0].weight.add_(1.0)
    assert module.training
    assert embedder.embed(walks(9), FROZEN).tobytes() == before.tobytes()


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [("mean", [1, -2, 3, 0.5, 4]), ("max", [2, 2, 6, 1, 8]), ("cls", [1, -2, 3, 0.5, 4])],
)
def test_tokens_are_pooled(pooling, expected):
    (found,) = TorchModule(Tokens(), pooling=pooling).embed([np.array([[1, -2, 3, 0.5, 4]])], FROZEN)
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-6)


def test_feature_maps_are_pooled_and_have_no_first_token():
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), np.int64)  # features of bytes are rounded
    network = Returning(lambda batch: batch[:, :, ::2, ::2])
    plain = Pictures((8, 8), scale=1.0, mean=(0, 0, 0), std=(1, 1, 1))
    (mean,) = TorchModule(network, pictures=plain).embed([images], None)
    expected = images[:, ::2, ::2].astype(float).mean(axis=(0, 1, 2))
    np.testing.assert_allclose(mean, expected / np.linalg.norm(expected), atol=1e-6)
    (most,) = TorchModule(network, pictures=plain, pooling="max").embed([images], None)
    expected = images[:, ::2, ::2].astype(float).max(axis=(1, 2)).mean(axis=0)
    np.testing.assert_allclose(most, expected / np.linalg.norm(expected), atol=1e-6)
    with pytest.raises(EmbedderError, match=r"pooling 'cls': expected features .*found \[3, 3, 4, 4\]"):
        TorchModule(network, pictures=plain, pooling="cls").embed([images], None)


def test_pictures_are_what_the_network_was_trained_on():
    seen = []
    network = Returning(lambda batch: seen.append(batch.numpy().copy()) or batch.mean(dim=(2, 3)))
    image = np.zeros((1, 4, 6, 4), np.uint8)
    image[..., 0], image[..., 1], image[..., 3] = 255, 51, 7
    TorchModule(network, pictures=Pictures((2, 3))).embed([image], None)
    expected = [(1 - 0.485) / 0.229, (0.2 - 0.456) / 0.224, (0 - 0.406) / 0.225]
    assert seen[-1].shape == (1, 3, 2, 3)
    np.testing.assert_allclose(seen[-1][0, :, 1, 2], expected, rtol=1e-6)
    TorchModule(network, pictures=Pictures((2, 2), scale=1.0)).embed([np.full((1, 4, 4), 0.485)], None)
    assert seen[-1][0, :, 0, 0] == pytest.approx([0, (0.485 - 0.456) / 0.224, (0.485 - 0.406) / 0.225])


def test_more_coefficients_keep_the_order_of_events():
    (window,) = walks(60)
    for coefficients, least, most in ((1, 0.9999, 1.01), (4, -1, 0.99)):
        one, two = TorchModule(of_vectors(), coefficients=coefficients).embed([window, window[::-1]], FROZEN)
        assert least < float(one @ two) < most


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda batch: batch.sum(), r"expected features .*found \[\]"),
        (lambda batch: batch[:1], r"of 3 timesteps, found \[1, 5\]"),
        (lambda batch: batch[:, :0], r"found \[3, 0\]"),
        (lambda batch: batch * float("nan"), "expected finite features"),
        (lambda _: "text", "expected a tensor as the answer, found str"),
        (lambda batch: batch @ batch, r"failed on a batch \[3, 5\]"),
    ],
)
def test_answers_that_are_not_features_are_refused(answer, message):
    with pytest.raises(EmbedderError, match=message):
        TorchModule(Returning(answer)).embed(walks(3), FROZEN)


def test_files_that_are_not_networks_are_refused(tmp_path):
    (tmp_path / "text.ts").write_text("no network")
    (tmp_path / "text.onnx").write_text("no network")
    torch.save(of_vectors(), tmp_path / "pickled.pt")
    (tmp_path / "evil.pt").write_bytes(pickle.dumps(print))
    torch.save({"0.weight": torch.zeros(1)}, tmp_path / "other.pt")
    for name in ("text.ts", "pickled.pt", "evil.pt"):
        with pytest.raises(EmbedderError, match=f"{name}: expected a TorchScript or ONNX file"):
            TorchModule(str(tmp_path / name)).dim(5)
    for name in ("pickled.pt", "evil.pt", "other.pt", "text.ts"):
        with pytest.raises(EmbedderError, match=f"{name}: expected a state dict of Sequential"):
            TorchModule(of_vectors(), tmp_path / name).dim(5)
    with pytest.raises(EmbedderError, match=r"absent.ts: expected a file of weights: No such file"):
        TorchModule(str(tmp_path / "absent.ts")).dim(5)
    with pytest.raises(EmbedderError, match="expected no other weights"):
        TorchModule(str(tmp_path / "text.ts"), tmp_path / "other.pt").dim(5)
    with pytest.raises(EmbedderError, match=r"expected a torch\.nn\.Module or the path of a file, found list"):
        TorchModule([1]).dim(5)
    with pytest.raises(EmbedderError, match="device 'abacus': expected one that torch can use"):
        TorchModule(of_vectors(), device="abacus").dim(5)


def test_onnx_files_and_batches_that_do_not_fit_are_refused(tmp_path):
    path = to_onnx(of_vectors(), tmp_path / "net.onnx")
    with pytest.raises(EmbedderError, match=r"net.onnx: the network failed on a batch \[1, 6\]"):
        TorchModule(str(path)).dim(6)
    with pytest.raises(EmbedderError, match="device 'cuda:3': expected one of"):
        TorchModule(str(path), device="cuda:3").dim(5)
    path.write_text("no network")
    with pytest.raises(EmbedderError, match=r"net.onnx: expected an ONNX file"):
        TorchModule(str(path)).dim(5)


@pytest.mark.parametrize(
    "wrong", [{"stride": 0}, {"batch": 0}, {"coefficients": 0}, {"pooling": "sum"}, {"pictures": 3}]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(EmbedderError, match=f"{next(iter(wrong))}: expected"):
        TorchModule(of_vectors(), **wrong)


@pytest.mark.parametrize(
    "wrong", [{"size": (0, 8)}, {"size": 8}, {"mean": (0.5,)}, {"std": (1, 1, 0)}, {"scale": 0}, {"mean": (0, 0, None)}]
)
def test_impossible_pictures_are_refused(wrong):
    with pytest.raises(EmbedderError, match="pictures: expected"):
        Pictures(**{"size": (8, 8)} | wrong)


def test_a_stored_space_never_loads_a_network(tmp_path):
    embedder = TorchModule(of_vectors())
    space = Space(
        embedder=embedder.name,
        version=1,
        parameters=embedder.parameters(),
        lanes=(LaneSpec("signal/state", (5,)),),
        windows=WindowPlan(),
        dim=7,
        metric="cosine",
        statistics=FROZEN,
    )
    for parameters in (space.parameters, {"model": str(tmp_path / "absent.ts")}):
        with pytest.raises(UnknownEmbedderError, match=r"name the embedder"):
            embedder_of(Space(**{**vars(space), "parameters": parameters}))


@pytest.mark.parametrize("stride", [1, 3])
def test_the_network_sees_each_picture_once_for_overlapping_windows(stride):
    seen = []
    pictures = of_pictures().eval()
    counting = Returning(lambda batch: seen.append(len(batch)) or pictures(batch))
    embedder = TorchModule(counting, pictures=Pictures((8, 8)), batch=16, stride=stride)
    frames = np.random.default_rng(5).integers(0, 255, (50, 12, 12, 3), np.uint8)
    spans = np.array([[0, 20], [3, 23], [6, 26], [30, 50]])
    found = embedder.embed(Cuts([(frames, spans)]), None)
    steps = {step for start, stop in spans.tolist() for step in range(start, stop, stride)}
    assert sum(seen) == len(steps)
    plain = embedder.embed([frames[start:stop] for start, stop in spans.tolist()], None)
    np.testing.assert_allclose(found, plain, atol=1e-6)


@pytest.mark.parametrize("workers", [1, 2])
def test_pictures_from_files_to_hits(tmp_path, workers):
    (tmp_path / "episodes").mkdir()
    for seed in range(4):
        save_wshard(make_episode(seed, T=12, image_size=20), tmp_path / "episodes" / f"{seed}.wshard")
    model = str(script(of_pictures(), torch.zeros(2, 3, 8, 8), tmp_path / "net.ts"))
    make = partial(TorchModule, model, pictures=Pictures((8, 8)), coefficients=4)
    assert takes_frames(make())
    with TrajectoryIngestor(tmp_path / "archive", make()) as ingestor:
        assert ingestor.ingest(tmp_path / "episodes", workers_count=workers, windows="whole").embedded == 4
    query = load_wshard(tmp_path / "episodes" / "2.wshard")
    with TrajectoryRetriever(tmp_path / "archive", make()) as retriever:
        hits = retriever.search_similar_episodes(query)
        assert hits[0].episode_id == "reach-0002"
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    refused = pytest.raises(UnknownEmbedderError, match=r"found 'torchmodule' .*'sha256'.*name the embedder")
    with TrajectoryRetriever(tmp_path / "archive") as retriever, refused:
        retriever.search_similar_episodes(query)
