"""Episodes for tests: realistic and arbitrary ones, and their exact comparison.

Hypothesis is imported on use only: it comes with the extra "dev".
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.encode import as_bytes
from wshard.core.episode.naming import LATENT_ACTION_CHANNEL, LATENT_CODEBOOK_CHANNEL
from wshard.core.messages import how_to_install
from wshard.core.types import Array, Channel, Episode, Modality, Residual, TimebaseSpec, TimebaseType
from wshard.errors import MissingExtraError

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = ["assert_same_episode", "episodes", "make_episode"]


# ---- one realistic episode -----------------------------------------------------------------------------------------


def make_episode(
    seed: int = 0,
    T: int = 20,  # noqa: N803  (T is what every document of the format calls the number of timesteps)
    *,
    env_id: str = "Reach-v1",
    image_size: int = 0,
    tick_hz: float = 20.0,
) -> Episode:
    """Return the episode of an arm that reaches for a goal; equal arguments give equal episodes.

    T: timesteps. image_size: side of the camera images [T, size, size, 3] in pixels, 0 for no camera. Observations:
    joint_pos f32 [T, 7], gripper f32 [T]; action: ctrl f32 [T, 4]; reward: minus the distance in metres.
    """
    rng = np.random.default_rng(seed)
    goal, start = rng.normal(0, 0.5, (2, 7))
    progress = np.linspace(0, 1, T)[:, None] ** rng.uniform(0.5, 2)
    joints = (start + (goal - start) * progress + rng.normal(0, 0.01, (T, 7))).astype(np.float32)
    distance = np.linalg.norm(joints - goal, axis=1)
    gripper = (distance < np.median(distance)).astype(np.float32)
    observations = {"joint_pos": Channel.of("joint_pos", joints), "gripper": Channel.of("gripper", gripper)}
    if image_size:
        images = rng.integers(0, 256, (T, image_size, image_size, 3), np.uint8)
        observations["camera/rgb"] = Channel.of("camera/rgb", images, modality=Modality.RGB)
    return Episode(
        id=f"reach-{seed:04d}",
        env_id=env_id,
        length=T,
        timebase=TimebaseSpec(tick_hz=tick_hz),
        observations=observations,
        actions={"ctrl": Channel.of("ctrl", rng.normal(0, 1, (T, 4)).astype(np.float32))},
        rewards=-distance.astype(np.float32),
        terminations=np.arange(T) == T - 1,
        metadata={"task": "reach", "success": bool(distance[-1] < 0.1), "seed": seed},
    )


# ---- arbitrary episodes --------------------------------------------------------------------------------------------


def episodes(*, max_length: int = 8) -> SearchStrategy[Episode]:
    """Return a Hypothesis strategy for valid episodes of 1 to max_length timesteps, covering all features.

    All 13 dtypes, also of rewards; scalar, flat, image-like and empty shapes; big-endian and non-contiguous arrays;
    predictions, latent actions, residuals, blocks of other programs, metadata, chunk fields. Raises MissingExtraError
    without Hypothesis.
    """
    strategies = _strategies()

    def build(draw: DrawFn) -> Episode:
        return _draw_episode(draw, draw(strategies.integers(1, max_length)))

    strategy: SearchStrategy[Episode] = strategies.composite(build)()
    return strategy


def _strategies() -> Any:
    try:
        from hypothesis import strategies  # noqa: PLC0415  (an optional dependency, see the module's docstring)
    except ImportError:
        raise MissingExtraError(f"wshard.testing.episodes needs Hypothesis: {how_to_install('dev')}") from None
    return strategies


def _draw_episode(draw: DrawFn, length: int) -> Episode:
    st = _strategies()
    names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(["state", "cam/rgb", "a/b"])
    models = names.filter(lambda name: "/" not in name)
    owners = names | st.sampled_from([LATENT_ACTION_CHANNEL, LATENT_CODEBOOK_CHANNEL])
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    lanes = st.dictionaries(
        names, st.builds(lambda pick: _channel(rng, length, pick), st.integers(0, 10**6)), max_size=3
    )
    total = draw(st.none() | st.integers(1, 5))
    return Episode(
        id=draw(names.filter(bool)),
        env_id=draw(names),
        length=length,
        timebase=draw(_timebases(st)),
        observations=_named(draw(lanes)),
        actions=_named(draw(lanes)),
        rewards=draw(st.sampled_from([None, *_step_arrays(rng, length, ">f4", *(kind.numpy_dtype for kind in DType))])),
        terminations=draw(st.sampled_from([None, rng.random(length) < 0.5])),
        truncations=draw(st.sampled_from([None, rng.random(length) < 0.5])),
        omens={
            channel: _named({model: _channel(rng, length, pick)}, prefix=f"{channel}/")
            for channel, model, pick in draw(st.lists(st.tuples(owners, models, st.integers(0, 10**6)), max_size=2))
        },
        uncerts=_named(draw(lanes)),
        residuals={
            name: Residual(name, "sign2nddiff", rng.integers(0, 256, -(-length // 8), np.uint8))
            for name in draw(st.lists(names, max_size=1))
        },
        metadata=draw(st.dictionaries(names, _json_values(st), max_size=3)),
        chunk_index=None if total is None else draw(st.integers(0, total - 1)),
        total_chunks=total,
        timestep_range=draw(st.sampled_from([None, (5, 4 + length)])),
        ticks=draw(st.sampled_from([None, *_step_arrays(rng, length, "<i4", ">i8")])),
        timestamps_ns=draw(st.sampled_from([None, *_step_arrays(rng, length, "<i8", ">i4")])),
        blocks=draw(
            st.dictionaries(st.sampled_from(["meta/models", "debug/log", "aux/notes"]), st.binary(max_size=80))
        ),
    )


def _named(channels: dict[str, Channel], prefix: str = "") -> dict[str, Channel]:
    for name, channel in channels.items():
        channel.name = prefix + name
    return channels


def _timebases(st: Any) -> Any:
    rates = st.sampled_from([30.0, 60.0, 29.97, 1000.0, 0.5]) | st.floats(1e-3, 1e6)
    return st.builds(TimebaseSpec, st.sampled_from(list(TimebaseType)), rates, st.integers(0, 2**62))


def _json_values(st: Any) -> Any:
    plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(plain | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=4)


def _step_arrays(rng: np.random.Generator, length: int, *dtypes: str | np.dtype[Any]) -> list[Array]:
    return [rng.integers(-1000, 1000, length).astype(dtype) for dtype in dtypes]


_SHAPES = ((), (1,), (3,), (2, 3), (4, 4, 3), (0,), (2, 0))


def _channel(rng: np.random.Generator, length: int, pick: int) -> Channel:
    """Return a channel of arbitrary bits whose dtype, shape and memory layout are chosen by the number `pick`."""
    kinds = list(DType)
    pick, kind = divmod(pick, len(kinds))
    pick, shape = divmod(pick, len(_SHAPES))
    pick, layout = divmod(pick, 4)
    dtype, full = kinds[kind].numpy_dtype, (length, *_SHAPES[shape])
    if kinds[kind] is DType.BOOL:
        data: Array = rng.random(full) < 0.5
    else:
        data = np.frombuffer(rng.bytes(int(np.prod(full)) * dtype.itemsize), dtype).reshape(full)
    if layout == 1 and dtype.kind in "fiu":
        data = data.astype(dtype.newbyteorder(">"))
    elif layout == 2:
        data = np.repeat(data, 2, axis=0)[::2]
    elif layout == 3:
        data = np.asfortranarray(data)
    rate = (None, 100.0)[pick % 2]
    modality = (None, *Modality)[pick % (len(Modality) + 1)]
    described: dict[str, Any] = {}
    if pick % 2:
        names = tuple(f"joint {number}" for number in range(sum(full[-1:])))
        described = {"semantics": "joint angles", "content_type": "image/png", "unit": "rad", "names": names}
        described["kinds"] = ("4:quaternion", "1:angle")[: pick % 3]
    return Channel("", kinds[kind], list(full[1:]), data, modality=modality, sampling_rate_hz=rate, **described)


# ---- what "the same" means -----------------------------------------------------------------------------------------


def assert_same_episode(left: Episode, right: Episode) -> None:
    """Raise AssertionError if two episodes differ in any value, bit for bit; byte order and strides do not count."""
    for name in ("id", "env_id", "length", "timebase", "metadata", "chunk_index", "total_chunks", "blocks"):
        _same(name, getattr(left, name), getattr(right, name))
    _same("timestep_range", *(episode.timestep_range and tuple(episode.timestep_range) for episode in (left, right)))
    for name in ("rewards", "terminations", "truncations"):
        _same_array(name, getattr(left, name), getattr(right, name))
    for name in ("ticks", "timestamps_ns"):
        _same(name, *(None if (a := getattr(ep, name)) is None else np.asarray(a).tolist() for ep in (left, right)))
    _same_channels(left.lanes() | left.predictions(), right.lanes() | right.predictions())
    _same("residuals", sorted(left.residuals), sorted(right.residuals))
    for name, residual in left.residuals.items():
        _same(f"residual {name!r}: type", residual.type, right.residuals[name].type)
        _same_array(f"residual {name!r}", residual.data, right.residuals[name].data)


def _same_channels(left: dict[str, Channel], right: dict[str, Channel]) -> None:
    _same("lanes", sorted(left), sorted(right))
    for block, channel in left.items():
        for name in [field.name for field in fields(channel) if field.name not in ("data", "encoded")]:
            _same(f"{block}: {name}", getattr(channel, name), getattr(right[block], name))
        _same_array(block, channel.data, right[block].data)


def _same(what: str, left: object, right: object) -> None:
    assert left == right, f"{what}: {left!r} differs from {right!r}"


def _same_array(what: str, left: Array | None, right: Array | None) -> None:
    if left is None or right is None:
        assert left is right, f"{what}: one of the two is not recorded"
        return
    _same(f"{what}: dtype", DType.from_numpy(left.dtype), DType.from_numpy(right.dtype))
    _same(f"{what}: shape", left.shape, right.shape)
    assert bytes(as_bytes(left)[0]) == bytes(as_bytes(right)[0]), f"{what}: values differ"
