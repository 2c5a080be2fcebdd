"""Look up embedders by name: a table, entry points of other packages, "module:attribute", and objects passed directly.

The embedder of a stored Space is only looked up in the table and the entry points, as a database must not decide
which module is imported.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from embedders.base import Embedder
from embedders.shard_arrays import read_about
from embedders.space import check_same_space
from embedders.trajectory.pooled import PooledCallable
from wshard.core.plugins import announced_plugins, find_plugin, load_plugin
from wshard.errors import EmbedderError, SpaceMismatchError, UnknownEmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embedders.canonical_json import JSON
    from embedders.space import Space
    from embedders.trajectory.pooled import PooledFunction
    from embedders.windows import WindowPlan

EMBEDDERS: Final[Mapping[str, str]] = {
    "adapted": "embedders.trajectory.adapted:Adapted",
    "arcdct": "embedders.trajectory.arc:ArcDct",
    "blocks": "embedders.trajectory.blocks:Blocks",
    "dct": "embedders.trajectory.spectral:Dct",
    "encoder": "embedders.encoders.local_encoder:LocalEncoder",
    "frames": "embedders.image.frames:Frames",
    "learned": "embedders.neural.learned:Learned",
    "learnedframes": "embedders.neural.learned_frames:LearnedFrames",
    "mean": "embedders.trajectory.pooled:Mean",
    "stats": "embedders.trajectory.pooled:Stats",
    "torchmodule": "embedders.neural.torch_module:TorchModule",
}
"""Name -> "module:attribute" of every embedder of this package."""

_FILE_PARAMETERS: Final = {
    "adapted": "weights",
    "encoder": "folder",
    "learned": "weights",
    "learnedframes": "weights",
    "torchmodule": "model",
}
"""Those of a file, and the parameter that names it."""

MODEL_SUFFIX: Final = ".wshard-model"
"""Of files of trained embedders whose content says which embedder they are of."""

_KINDS: Final = {"blocks": "adapted", "width": "learned", "side": "learnedframes"}
"""What only the files of one embedder say, and the embedder."""

_TELLING: Final = ("embed", "dim")
_MEMBERS: Final = ("name", "version", "uses_statistics", "metric", "parameters", *_TELLING)
"""What an Embedder has; the first say that somebody meant to make one."""

ENTRY_POINT_GROUP: Final = "wshard.embedders"
"""Entry points of embedders in other packages; names of the table cannot be overridden."""

DEFAULT_EMBEDDER: Final = "blocks"
"""The default for whole episodes."""

_FOR_WINDOWS: Final = MappingProxyType({"damping": 0.0, "position": None, "level": 0.6})
"""For windows, damping is harmful if sensors drift, and the mean along a short path is uninformative."""


def default_embedder(windows: WindowPlan) -> Embedder:
    """Return the default embedder for windows of this plan.

    Whole episodes use `blocks`; windows, of which there are many, use `arcdct` along all channels, which is smaller and
    faster.
    """
    return make_embedder(DEFAULT_EMBEDDER) if windows.whole else make_embedder("arcdct", _FOR_WINDOWS)


def embedder_for(embedder: Embedder | None, windows: WindowPlan) -> Embedder:
    """Return the embedder for windows of this plan; embedder: the chosen one, None for the default.

    An embedder with a true attribute `whole_episodes` leaves windows to the default one.
    """
    if embedder is None or (not windows.whole and getattr(embedder, "whole_episodes", False)):
        return default_embedder(windows)
    return embedder


def make_embedder(name: str, parameters: Mapping[str, JSON] | None = None) -> Embedder:
    """Return the embedder of a name, "NAME:FILE", "FILE.wshard-model" or "package.module:attribute".

    A FILE is what `adapted`, `encoder` (a folder), `learned`, `learnedframes` and `torchmodule` are made from. The
    embedder is made with `parameters`.

    The attribute is an embedder class, an embedder, or a function of the mean over time; the latter two take no
    parameters. Raises UnknownEmbedderError, MissingExtraError if the module cannot be imported, EmbedderError for
    invalid parameters.
    """
    kind, colon, file = name.partition(":")
    if name.endswith(MODEL_SUFFIX) and kind not in _FILE_PARAMETERS:
        kind, colon, file = _kind_of(name), ":", name
    if kind in _FILE_PARAMETERS and colon:
        if not file:
            raise UnknownEmbedderError(f"expected '{kind}:FILE', found {name!r}")
        return _build(_load(EMBEDDERS[kind], kind), kind, {_FILE_PARAMETERS[kind]: file, **(parameters or {})})
    target = _target(name) or (name if ":" in name else None)
    if target is None:
        names = ", ".join(sorted({*announced_plugins(ENTRY_POINT_GROUP), *EMBEDDERS}))
        raise UnknownEmbedderError(f"expected an embedder of {names}, or 'package.module:attribute'; found {name!r}")
    return _build(_load(target, name), name, dict(parameters or {}))


def embedder_of(space: Space) -> Embedder:
    """Return the embedder that made the vectors of a stored Space.

    Raises UnknownEmbedderError for a name that is neither in the table nor an installed entry point, or that of an
    embedder of files, and SpaceMismatchError if the embedder of that name differs from the one that made the Space.
    """
    again = "`wshard ingest FOLDER` embeds the episodes with what is installed"
    if space.embedder in _FILE_PARAMETERS or _target(space.embedder) is None:
        found = f"{space.embedder!r} {dict(space.parameters)}"
        raise UnknownEmbedderError(
            f"expected a Space whose embedder can be made from it, found {found}: name the embedder that made "
            f"it, or {again}"
        )
    try:
        embedder = make_embedder(space.embedder, space.parameters)
        check_same_space(space, _with_embedder(space, embedder))
    except EmbedderError as error:
        raise SpaceMismatchError(f"no installed embedder makes vectors of this Space: {error}: {again}") from error
    return embedder


def as_embedder(value: str | Embedder | PooledFunction) -> Embedder:
    """Return an embedder for a name, for an embedder itself, or for a function of the mean over time.

    Raises EmbedderError for anything else, and what `make_embedder` raises.
    """
    return make_embedder(value) if isinstance(value, str) else _adopt(value, None)


def _with_embedder(space: Space, embedder: Embedder) -> Space:
    return replace(
        space,
        embedder=embedder.name,
        version=embedder.version,
        parameters=embedder.parameters(),
        dim=embedder.dim(space.channels),
        metric=embedder.metric,
    )


def _kind_of(file: str) -> str:
    """Return the embedder that a file was trained for. Raises EmbedderError for other files."""
    expected = "an embedder that `wshard train-embedder` wrote"
    about = read_about(file, expected)
    kinds = [kind for key, kind in _KINDS.items() if key in about]
    if len(kinds) != 1:
        raise EmbedderError(f"{file}: expected {expected}, found another file")
    return kinds[0]


def _target(name: str) -> str | None:
    return find_plugin(name, EMBEDDERS, ENTRY_POINT_GROUP)


def _load(target: str, name: str) -> Any:
    return load_plugin(target, f"embedder {name!r}", unknown=UnknownEmbedderError)


def _build(target: Any, name: str, parameters: dict[str, JSON]) -> Embedder:
    if not isinstance(target, type):
        if parameters:
            raise EmbedderError(f"embedder {name!r}: expected no parameters, it is ready made; found {parameters}")
        return _adopt(target, name)
    try:
        inspect.signature(target).bind(**parameters)
    except (TypeError, ValueError) as error:  # ValueError: a builtin class without a signature
        advice = f"; name its file, '{name}:FILE'" if name in _FILE_PARAMETERS else ""
        raise EmbedderError(
            f"embedder {name!r}: expected its parameters, found {parameters}: {error}{advice}"
        ) from error
    return _adopt(target(**parameters), name)


def _adopt(value: Any, name: str | None) -> Embedder:
    if isinstance(value, Embedder) and not isinstance(value, type):
        return value
    is_embedder_like = all(hasattr(value, member) for member in _TELLING)  # an embedder, also where it can be called
    if callable(value) and not isinstance(value, type) and not is_embedder_like:
        return PooledCallable(value, name)
    missing = ", ".join(member for member in _MEMBERS if not hasattr(value, member))
    hint = f", an embedder that lacks {missing}" if is_embedder_like and missing else ""
    raise EmbedderError(f"expected a name, an embedder or a function of the mean over time, found {value!r}{hint}")
