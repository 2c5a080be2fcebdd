"""Runs networks of torch: on the GPU if there is one, without gradients, with arrays in and out."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wshard.core.plugins import import_library
from wshard.errors import EmbedderError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from embedders.encoders.model_folder import ModelFolder


class TorchNetwork:
    """A network that is ready to run."""

    def __init__(self, module: Any) -> None:
        self._torch = import_library("torch", "encoders")
        self._device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self.module = module.eval().to(self._device)

    def run(self, call: Callable[..., Any], arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return what a call of the network answers to arrays. Raises EmbedderError if it fails."""
        try:
            with self._torch.inference_mode():
                tensors = {name: self._torch.from_numpy(array).to(self._device) for name, array in arrays.items()}
                found: NDArray[np.float32] = call(**tensors).float().cpu().numpy()
        except RuntimeError as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
            raise EmbedderError(f"the encoder failed on {shapes}: {str(error).strip().splitlines()[-1]}") from error
        return found


def read_state(folder: ModelFolder) -> dict[str, Any]:
    """Return the tensors in the safetensors of a folder, as float32 where they are fractions. Raises EmbedderError."""
    library = import_library("safetensors.torch", "encoders")
    state: dict[str, Any] = {}
    for name in folder.weights:
        with translate_failures(folder, "weights"):
            state |= library.load_file(folder.files[name])
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def import_maker(name: str, package: str) -> Any:
    """Import the library that makes a network, which no extra installs. Raises MissingExtraError, which says how."""
    try:
        return import_module(name)
    except (ImportError, RuntimeError) as error:  # the latter where torchvision is of another torch
        message = str(error).strip().splitlines()[0]
        raise MissingExtraError(f"expected to import {name}: {message}: pip install {package}") from error


@contextmanager
def translate_failures(folder: ModelFolder, expected: str) -> Iterator[None]:
    """Translate what a library raises for the files of a folder to an EmbedderError of one line."""
    try:
        yield
    except (EmbedderError, MissingExtraError, MemoryError):
        raise
    except Exception as error:  # these libraries raise errors of any class for wrong files
        message = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise EmbedderError(f"{folder.path}: expected {expected} that can be read: {message}") from error
