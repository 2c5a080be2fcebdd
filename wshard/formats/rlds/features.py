"""The contents of features.json: the features of an episode as paths with dtype, shape and encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wshard.core.messages import shown
from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FEATURES: Final = "features.json"
STEPS: Final = "steps"
NUMBER, TEXT, IMAGE, OTHER = "number", "text", "image", "other"
"""Kinds of features."""

_MAX_DEPTH: Final = 16
_MAX_SIZE: Final = 1 << 31
_DTYPES: Final = frozenset(
    ["bool", "float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
)


@dataclass(frozen=True)
class TFDSFeature:
    """A feature by its path in an Example, such as "steps/observation/state".

    shape: of a step, None for a size that differs. encoding: "bytes" or "zlib" of tensors that are stored so.
    """

    path: str
    kind: str
    dtype: str = ""
    shape: tuple[int | None, ...] = ()
    encoding: str = ""

    @property
    def name(self) -> str:
        """The path below steps, or below the dict that it is in."""
        return self.path.partition("/")[2] or self.path


def read_features(tree: object, where: str) -> tuple[list[TFDSFeature], list[TFDSFeature]]:
    """Return the features of steps, and those of the episode; raises FormatError."""
    top = _members(tree)
    if top is None or STEPS not in top:
        raise FormatError(f"{where}: expected a FeaturesDict with steps, found {shown(tree)}")
    sequence = _member(top[STEPS], "sequence")
    steps = _walk(_member(sequence, "feature"), STEPS, 0)
    of_episode = [feature for name, node in top.items() if name != STEPS for feature in _walk(node, name, 0)]
    return list(steps), of_episode


def _members(node: object) -> Mapping[str, Any] | None:
    members = _member(_member(node, "featuresDict"), "features")
    return members if isinstance(members, dict) else None


def _member(node: object, name: str) -> Any:
    return node.get(name) if isinstance(node, dict) else None


def _walk(node: object, path: str, depth: int) -> Iterator[TFDSFeature]:
    members = _members(node)
    if members is not None and depth < _MAX_DEPTH:
        for name, member in members.items():
            yield from _walk(member, f"{path}/{name}", depth + 1)
        return
    yield _leaf(node, path)


def _leaf(node: object, path: str) -> TFDSFeature:
    if _member(node, "text") is not None:
        return TFDSFeature(path, TEXT)
    if _member(node, "classLabel") is not None:
        return TFDSFeature(path, NUMBER, "int64")
    image = _member(node, "image")
    if image is not None:
        dtype = str(_member(image, "dtype") or "uint8")
        return TFDSFeature(path, IMAGE if dtype in {"uint8", "uint16"} else OTHER, dtype)
    sequence = _member(node, "sequence")
    inner = _member(_member(sequence, "feature"), "tensor") if sequence is not None else None
    tensor = _member(node, "tensor") if inner is None else inner
    shape = _shape(tensor)
    dtype = str(_member(tensor, "dtype") or "")
    if shape is None:
        return TFDSFeature(path, OTHER)
    if inner is not None:
        length = _size(_member(sequence, "length"))
        shape = (length, *shape)
    if dtype == "string":
        return TFDSFeature(path, OTHER if shape else TEXT)
    encoding = str(_member(tensor, "encoding") or "none").lower()
    return TFDSFeature(
        path, NUMBER if dtype in _DTYPES else OTHER, dtype, shape, "" if encoding == "none" else encoding
    )


def _shape(tensor: object) -> tuple[int | None, ...] | None:
    shape = _member(tensor, "shape")
    sizes = _member(shape, "dimensions") or []
    if not isinstance(shape, dict) or not isinstance(sizes, list) or len(sizes) > _MAX_DEPTH:
        return None
    return tuple(_size(size) for size in sizes)


def _size(value: object) -> int | None:
    """Parse a size as TFDS writes it: a number as text; None for -1, a size that varies."""
    try:
        size = int(str(value))
    except ValueError:
        return None
    return size if 0 <= size < _MAX_SIZE else None


# ---- writing -------------------------------------------------------------------------------------------------------


_CLASS: Final = "tensorflow_datasets.core.features"


def describe_features(steps: list[TFDSFeature], episode: list[TFDSFeature]) -> dict[str, Any]:
    """Return the tree of features.json."""
    nested: dict[str, Any] = {"pythonClassName": f"{_CLASS}.dataset_feature.Dataset"}
    nested |= {"sequence": {"feature": _tree(steps), "length": "-1"}}
    members = _tree(episode, 0)["featuresDict"]["features"]
    return _dict(dict(sorted({**members, STEPS: nested}.items())))


def _dict(members: dict[str, Any]) -> dict[str, Any]:
    return {
        "pythonClassName": f"{_CLASS}.features_dict.FeaturesDict",
        "featuresDict": {"features": members},
    }


def _tree(features: list[TFDSFeature], skip: int = 1) -> dict[str, Any]:
    members: dict[str, Any] = {}
    groups: dict[str, list[TFDSFeature]] = {}
    for feature in features:
        head, *rest = feature.path.split("/")[skip:]
        if rest:
            groups.setdefault(head, []).append(feature)
        else:
            members[head] = _describe(feature)
    members |= {head: _tree(group, skip + 1) for head, group in groups.items()}
    return _dict(dict(sorted(members.items())))


def _describe(feature: TFDSFeature) -> dict[str, Any]:
    if feature.kind == TEXT:
        return {"pythonClassName": f"{_CLASS}.text_feature.Text", "text": {}}
    shape = {"dimensions": [str(size) for size in feature.shape]} if feature.shape else {}
    if feature.kind == IMAGE:
        image = {"shape": shape, "dtype": feature.dtype, "encodingFormat": feature.encoding}
        return {"pythonClassName": f"{_CLASS}.image_feature.Image", "image": image}
    tensor = {"shape": shape, "dtype": feature.dtype, "encoding": feature.encoding or "none"}
    name = "tensor_feature.Tensor" if feature.shape else "scalar.Scalar"
    return {"pythonClassName": f"{_CLASS}.{name}", "tensor": tensor}
