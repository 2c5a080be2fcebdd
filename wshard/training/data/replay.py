"""A buffer of the newest episodes in memory, from which clips are drawn while episodes are added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from wshard.core.arguments import array_of, whole_number
from wshard.core.messages import shown
from wshard.errors import DatasetError, EntryNotFoundError, NoClipsError
from wshard.training.data.batch import collate
from wshard.training.data.clips import ClipIndex, positive
from wshard.training.data.dataset import Dataset
from wshard.training.data.writers import EPISODE_DATA_KEY, split_episode_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from wshard.training.data.batch import Item

    Sampler = Callable[[int, "ReplayBuffer", int, int], Any]

_CLASSIC: Final = ("pixels", "action", "reward", "terminated", "truncated")


def classic_filter(ep: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns pixels, action, reward, terminated and truncated of an episode."""
    return {key: values for key, values in ep.items() if key in _CLASSIC}


def _are_alike(rows: NDArray[Any], others: NDArray[Any]) -> bool:
    """Return whether rows have one shape and one dtype, floats of any width."""
    is_one_type = rows.dtype == others.dtype or rows.dtype.kind == others.dtype.kind == "f"
    return is_one_type and rows.shape[1:] == others.shape[1:]


class ReplayBuffer(Dataset):
    """At most max_steps timesteps in memory; the oldest whole episodes are evicted for new ones.

    Floats become as wide as the widest of a column.

    A clip has history_len steps, frameskip timesteps apart. Clips are arrays, images [T, H, W, C]. sampler(step,
    buffer, batch_size, history_len) returns the numbers of the clips to draw; by default all are equally likely, drawn
    by a generator with `seed`. key_filter: returns what to store of an episode, a dict of columns.
    """

    as_tensors = False
    channels_first = False

    def __init__(  # noqa: PLR0913  (the signature of the original)
        self,
        max_steps: int,
        history_len: int = 1,
        frameskip: int = 1,
        sampler: Sampler | None = None,
        transform: Callable[[Item], Item] | None = None,
        key_filter: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        self.max_steps = positive(max_steps, "max_steps")
        super().__init__([], [], positive(frameskip, "frameskip"), positive(history_len, "history_len"), transform)
        self.sampler, self.key_filter = sampler, key_filter
        self._rings: dict[str, NDArray[Any]] = {}
        self._starts = np.zeros(0, np.int64)
        self._end = 0
        self._step = 0
        self._revision = 0
        self._statements: list[dict[str, Any]] = []
        self._rng = np.random.default_rng(None if seed is None else whole_number(seed, "seed", DatasetError, least=0))

    # ---- writing -------------------------------------------------------------------------------------------------

    def write_episode(self, ep: Mapping[str, Any]) -> None:
        """Add an episode {column: values of its timesteps}; raises DatasetError for one that does not fit.

        Its per-episode values are those of EPISODE_DATA_KEY.
        """
        if not isinstance(ep, Mapping):
            raise DatasetError(f"episode: expected {{column: values of its timesteps}}, found {shown(ep)}")
        steps, statements = split_episode_data(ep)
        chosen: object = steps if self.key_filter is None else self.key_filter(dict(steps))
        if not isinstance(chosen, Mapping):
            raise DatasetError(f"key_filter: expected it to return the columns to store, found {shown(chosen)}")
        columns = {key: array_of(values, f"column {key!r}", DatasetError) for key, values in chosen.items()}
        length = self._check(columns)
        if not length:
            return
        if not self._rings:
            self._rings = {
                key: np.zeros((self.max_steps, *array.shape[1:]), array.dtype) for key, array in columns.items()
            }
        dropped = 0
        while int(self.lengths[dropped:].sum()) + length > self.max_steps:
            dropped += 1
        slots = (self._end + np.arange(length)) % self.max_steps
        for key, array in columns.items():
            wide = np.result_type(self._rings[key], array)
            if wide != self._rings[key].dtype:
                self._rings[key] = self._rings[key].astype(wide)
            self._rings[key][slots] = array
        self._statements = [*self._statements[dropped:], statements]
        self._set(np.append(self.lengths[dropped:], length), np.append(self._starts[dropped:], self._end))
        self._end = int((self._end + length) % self.max_steps)

    def write_episodes(self, episodes: Iterable[Mapping[str, Any]]) -> None:
        """Add several episodes."""
        for ep in episodes:
            self.write_episode(ep)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing: a buffer is a writer, too."""

    def _set(self, lengths: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
        self.lengths, self._starts = lengths.astype(np.int32), starts.astype(np.int64)
        self.offsets = (np.cumsum(lengths) - lengths).astype(np.int64)
        self.clip_indices = ClipIndex(self.lengths, self.span)
        self._revision += 1

    @property
    def revision(self) -> int:
        """The number of changes of its episodes."""
        return self._revision

    def _check(self, columns: Mapping[str, NDArray[Any]]) -> int:
        for key, array in columns.items():
            if array.ndim == 0:
                raise DatasetError(f"column {key!r}: expected a value for each timestep, found a scalar")
            if not isinstance(key, str) or array.dtype.hasobject:
                raise DatasetError(f"column {key!r}: expected a text as its name and an array, found {array.dtype}")
        lengths = {key: len(array) for key, array in columns.items()}
        length = next(iter(lengths.values()), 0)
        if len(set(lengths.values())) > 1:
            raise DatasetError(f"episode: expected columns of equal lengths, found {lengths}")
        if length > self.max_steps:
            raise DatasetError(f"episode: expected at most max_steps = {self.max_steps} timesteps, found {length}")
        if self._rings and length:
            for key in {**self._rings, **columns}:
                ring, rows = self._rings.get(key), columns.get(key)
                if ring is None or rows is None or not _are_alike(ring, rows):
                    expected = "no such column" if ring is None else f"{ring.dtype} {list(ring.shape[1:])}"
                    found = "none" if rows is None else f"{rows.dtype} {list(rows.shape[1:])}"
                    raise DatasetError(f"column {key!r}: expected {expected} as in the first episode, found {found}")
        return length

    def clear(self) -> None:
        """Remove all episodes."""
        self._statements = []
        self._set(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._end = 0

    # ---- reading -------------------------------------------------------------------------------------------------

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    @property
    def num_steps_stored(self) -> int:
        """Number of timesteps of all episodes."""
        return int(self.lengths.sum())

    def get_episode_data(self, episodes_idx: Sequence[int] | None = None) -> dict[str, list[Any]]:
        """Return per-episode values by name: those of these episodes, by default of all; None where there is none."""
        names = dict.fromkeys(name for values in self._statements for name in values)
        numbers = range(self.num_episodes) if episodes_idx is None else episodes_idx
        return {name: [self._statements[number].get(name) for number in numbers] for name in names}

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self._rings)

    def is_image(self, column: str) -> bool:
        """Return True for a column of images: uint8 [H, W, C] with C 1 or 3."""
        ring = self._rings[column]
        return ring.dtype == np.uint8 and ring.ndim == 4 and ring.shape[-1] in (1, 3)

    def _take(self, column: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Any:
        if column not in self._rings:
            raise EntryNotFoundError(f"no column {column!r}; there are {', '.join(self._rings) or 'none'}")
        return self._rings[column][(self._starts[episodes][:, None] + steps) % self.max_steps]

    @property
    def history_len(self) -> int:
        """Number of steps of a clip."""
        return self.num_steps

    def num_valid_ends(self, history_len: int | None = None) -> int:
        """Return the number of clips with this many steps."""
        return len(self._index(history_len))

    def _index(self, history_len: int | None) -> ClipIndex:
        if history_len is None or history_len == self.history_len:
            return self.clip_indices
        return ClipIndex(self.lengths, positive(history_len, "history_len") * self.frameskip)

    def sample(self, batch_size: int, history_len: int | None = None, step: int | None = None) -> dict[str, Any]:
        """Return random clips as stacked arrays [batch_size, history_len, ...]; no transform is applied.

        step: passed to the sampler; by default the number of the call. Raises NoClipsError, DatasetError.
        """
        count, index = history_len or self.history_len, self._index(history_len)
        if not len(index):
            raise NoClipsError(f"replay buffer: {index.explain_none()}")
        if self.sampler is None:
            numbers = self._rng.integers(0, len(index), positive(batch_size, "batch_size"))
        else:
            numbers = np.asarray(self.sampler(self._step if step is None else step, self, batch_size, count))
            if numbers.shape != (batch_size,) or not ((numbers >= 0) & (numbers < len(index))).all():
                raise DatasetError(f"sampler: expected {batch_size} numbers below {len(index)}, found {numbers}")
        self._step += step is None
        return self._sample(*index.locate(numbers), count)

    def _sample(self, episodes: NDArray[np.int64], starts: NDArray[np.int64], count: int) -> dict[str, Any]:
        transform, self.transform = self.transform, None
        try:
            return collate(self._make_clips(episodes, starts, count))
        finally:
            self.transform = transform

    def episodes(self) -> Iterator[dict[str, Any]]:
        """Yield each episode as lists of its timesteps by column, and per-episode values by EPISODE_DATA_KEY."""
        for number, length in enumerate(self.lengths.tolist()):
            columns: dict[str, Any] = {key: [*self.column_rows(key, number, 0, length)] for key in self._rings}
            yield columns | ({EPISODE_DATA_KEY: self._statements[number]} if self._statements[number] else {})

    def dump(self, path: Any, format: str = "lance", mode: str = "overwrite", **kw: Any) -> None:  # noqa: A002  (as ever)
        """Write all episodes as a data set; kw are options of the writer.

        Per-episode values that the format cannot store are left out, with a FormatWarning.
        """
        from wshard.training.data.registry import episodes_for, get_format  # noqa: PLC0415  (which imports every format)

        chosen = get_format(format)
        with chosen.open_writer(path, mode=mode, **kw) as writer:
            writer.write_episodes(episodes_for(chosen, self.episodes(), self.get_episode_data()))
