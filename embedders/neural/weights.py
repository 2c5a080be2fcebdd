"""Neural networks from local weights: an nn.Module, a TorchScript file or an ONNX file.

Imports torch and onnxruntime when used, never accesses the network, and never unpickles.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.plugins import import_library
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Network:
    """A loaded network: `run` maps float32 [B, ...] to its answer, a float array [B, ...].

    `title` is the kind of network, or the class of a module; `sha256` that of the weights, in hex.
    """

    title: str
    sha256: str
    run: Callable[[NDArray[np.float32]], NDArray[Any]]


def open_network(model: Any, weights: str | os.PathLike[str] | None, device: str) -> Network:
    """Load a network for `device` ("cpu", "cuda", "cuda:1").

    model: a torch.nn.Module, with the weights that it has or those of the state dict in the file `weights`; or the path
    of a TorchScript file, or of an ONNX file (*.onnx) that holds its weights itself. Such files are programs: load only
    those that you trust. Raises EmbedderError for what cannot be loaded, MissingExtraError if torch or onnxruntime
    is not installed.
    """
    if isinstance(model, str | Path):
        if weights is not None:
            raise EmbedderError(f"network {model}: expected no other weights, the file has its own; found {weights}")
        return _onnx(Path(model), device) if Path(model).suffix == ".onnx" else _script(Path(model), device)
    torch = import_library("torch", "torch")
    if not isinstance(model, torch.nn.Module):
        raise EmbedderError(f"network: expected a torch.nn.Module or the path of a file, found {type(model).__name__}")
    own = copy.deepcopy(model)  # training it further must not change an embedder that Spaces know by its weights
    if weights is not None:
        _fill(own, Path(weights), torch)
    title = f"{type(model).__module__}:{type(model).__qualname__}"
    return Network(title, _digest_of_state(own, torch), _torch_runner(own, device, torch))


def _script(path: Path, device: str) -> Network:
    torch = import_library("torch", "torch")
    digest = _digest_of_file(path)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "`torch.jit.load` is ", DeprecationWarning
            )  # such files exist all the same
            module = torch.jit.load(str(path), map_location="cpu")
    except (RuntimeError, ValueError) as error:
        raise EmbedderError(
            f"{path}: expected a TorchScript or ONNX file (a state dict must come with its nn.Module, a pickled module "
            f"is refused): {str(error).strip().splitlines()[0]}"
        ) from error
    return Network("torchscript", digest, _torch_runner(module, device, torch))


def _onnx(path: Path, device: str) -> Network:
    session, digest = open_onnx(path, device)
    name = session.get_inputs()[0].name
    return Network("onnx", digest, lambda batch: run_onnx(session, {name: batch}, path)[0])


def open_onnx(path: Path, device: str) -> tuple[Any, str]:
    """Return an onnxruntime session for a file that holds all its weights, and the file's sha256 in hex.

    Raises EmbedderError for what cannot be loaded, MissingExtraError where onnxruntime is not installed.
    """
    runtime = import_library("onnxruntime", "onnx")
    content = read_weights(path)
    provider = "CPUExecutionProvider" if device == "cpu" else "CUDAExecutionProvider"
    if provider not in runtime.get_available_providers():
        raise EmbedderError(f"{path}: device {device!r}: expected one of {runtime.get_available_providers()}")
    number = int(device.partition(":")[2] or 0)
    options = [{}] if device == "cpu" else [{"device_id": number}]
    settings = runtime.SessionOptions()
    # Weights in other files would be missing in the sha256, and are found in no folder of this name.
    settings.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path))
    try:
        session = runtime.InferenceSession(content, settings, providers=[provider], provider_options=options)
    except Exception as error:  # its errors share no base class but Exception
        raise EmbedderError(f"{path}: expected an ONNX file with its weights in it: {error}") from error
    return session, hashlib.sha256(content).hexdigest()


def run_onnx(session: Any, feeds: Mapping[str, NDArray[Any]], path: Path) -> list[NDArray[Any]]:
    """Return all outputs of a session. Raises EmbedderError, naming the file, for inputs that it does not take."""
    try:
        return [np.asarray(output) for output in session.run(None, dict(feeds))]
    except Exception as error:  # as above
        shapes = " and ".join(sorted({str(list(feed.shape)) for feed in feeds.values()}))
        raise EmbedderError(f"{path}: the network failed on a batch {shapes}: {error}") from error


def _torch_runner(module: Any, device: str, torch: Any) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
    try:
        module.eval().to(device)
    except (RuntimeError, AssertionError) as error:
        raise EmbedderError(f"device {device!r}: expected one that torch can use here: {error}") from error

    def run(batch: NDArray[np.float32]) -> NDArray[Any]:
        try:
            with torch.inference_mode():
                answer = module(torch.from_numpy(batch).to(device))
        except RuntimeError as error:
            message = str(error).strip().splitlines()[-1]
            raise EmbedderError(f"the network failed on a batch {list(batch.shape)}: {message}") from error
        first = answer[0] if isinstance(answer, tuple | list) else answer
        if not isinstance(first, torch.Tensor):
            raise EmbedderError(f"network: expected a tensor as the answer, found {type(first).__name__}")
        values: NDArray[Any] = first.float().cpu().numpy()
        return values

    return run


def _fill(module: Any, path: Path, torch: Any) -> None:
    _digest_of_file(path)  # raises EmbedderError for a missing file
    try:
        module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # its errors share no base class but Exception
        raise EmbedderError(
            f"{path}: expected a state dict of {type(module).__name__}: {str(error).strip().splitlines()[0]}"
        ) from error


def _digest_of_state(module: Any, torch: Any) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def read_weights(path: Path) -> bytes:
    """Return the content of a file. Raises EmbedderError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise EmbedderError(f"{path}: expected a file of weights: {error.strerror}") from error


def _digest_of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderError(f"{path}: expected a file of weights: {error.strerror}") from error
