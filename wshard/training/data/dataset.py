"""Episodes as clips: the base class of all data sets that a training loop reads."""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

import numpy as np

from wshard.core.arguments import integer, whole_numbers
from wshard.core.messages import plural, shown
from wshard.errors import DatasetError, EntryNotFoundError, StepError
from wshard.formats.world_model.columns import is_action
from wshard.training.data.batch import ClipBatch, Item, defines_slices, load_slice, take_slices
from wshard.training.data.clips import ClipIndex, positive
from wshard.training.data.tensors import as_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wshard.core.episode.meta_reader import Declaration


def explain_no_clips(data: Dataset) -> str:
    """Return why a data set has no clips, "" if it has some."""
    if len(data):
        return ""
    clips = data.clip_indices
    product = f" (num_steps {data.num_steps} * frameskip {data.frameskip})"
    return clips.explain_none(product if clips.span == data.span else "")


class Dataset(Sequence[Item]):
    """Clips of `num_steps` observations, `frameskip` timesteps apart, of episodes of these lengths.

    A clip covers num_steps * frameskip timesteps: observations are every frameskip-th of them; `action` has all of
    them, [num_steps, frameskip * A], row by row. transform: applied to an item before its actions are reshaped. lengths
    [episodes]; offsets [episodes]: cumulative lengths. A subclass defines `column_names` and `_load_slice`. Items have
    tensors if torch is installed and as_tensors is True, else arrays; images are [T, C, H, W].
    """

    as_tensors = True
    channels_first = True
    has_goals = False
    weights: NDArray[np.float64] | None = None
    """One per episode, by which ClipSampler draws its clips; None: all clips are equally likely."""

    def __init__(
        self,
        lengths: Any,
        offsets: Any,
        frameskip: int = 1,
        num_steps: int = 1,
        transform: Callable[[Item], Item] | None = None,
    ) -> None:
        self.lengths = np.asarray(lengths, np.int64)
        self.offsets = np.asarray(offsets, np.int64)
        self.frameskip = positive(frameskip, "frameskip")
        self.num_steps = positive(num_steps, "num_steps")
        if transform is not None and not callable(transform):
            raise DatasetError(f"transform: expected a function of an item, found {shown(transform)}")
        self.transform = transform
        self.clip_indices = ClipIndex(self.lengths, self.span)

    # ---- what a subclass defines ---------------------------------------------------------------------------------

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of an item."""
        raise NotImplementedError(f"{type(self).__name__}: expected a property column_names, a list of names")

    def _load_slice(self, ep_idx: int, start: int, end: int) -> Item:
        """Return the timesteps [start, end) of an episode: rows of each column as in items, images channels first."""
        if type(self)._take is Dataset._take:  # noqa: SLF001  (neither is defined)
            name = type(self).__name__
            raise NotImplementedError(f"{name}: expected a method _load_slice(ep_idx, start, end) that returns columns")
        return {name: self._as_shown(name, self.column_rows(name, ep_idx, start, end)) for name in self.column_names}

    def _take(self, column: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Any:
        """Return rows [clips, n, *row] of a column: the timesteps `steps` [clips, n] of an episode each.

        A list of one text per clip, for a column of texts. Readers define it in place of `_load_slice`.
        """
        taken = take_slices(self, episodes, steps)
        if column not in taken:
            raise EntryNotFoundError(f"no column {column!r}; there are {', '.join(taken) or 'none'}")
        return taken[column]

    def is_image(self, column: str) -> bool:  # noqa: ARG002  (slices have channels first already)
        """Return True for a column of images that items contain with channels first, and `_take` with channels last."""
        return False

    def is_action(self, column: str) -> bool:
        """Return True for a column of actions; items contain the actions of all timesteps."""
        return is_action(column)

    @property
    def fork_safe(self) -> bool:
        """Whether forked processes can read from it."""
        return True

    @property
    def revision(self) -> int:
        """A number that grows when episodes are added or removed, as in a ReplayBuffer."""
        return 0

    @property
    def where(self) -> str:
        """The name of the data set in messages."""
        return type(self).__name__

    def lane_of(self, column: str) -> Declaration | None:  # noqa: ARG002  (subclasses know)
        """Return the lane whose dtype and shape the rows of a column have, None where they are not declared."""
        return None

    @property
    def episode_column_names(self) -> list[str]:
        """The names of per-episode values."""
        return list(self.get_episode_data())

    def get_episode_data(self, episodes_idx: Sequence[int] | None = None) -> dict[str, list[Any]]:  # noqa: ARG002
        """Return per-episode values by name: those of these episodes, by default of all; None where there is none."""
        return {}

    # ---- items ---------------------------------------------------------------------------------------------------

    @property
    def span(self) -> int:
        """Number of timesteps that a clip covers."""
        return self.num_steps * self.frameskip

    def __repr__(self) -> str:
        counts = f"{plural(len(self), 'clip')} of {plural(self.span, 'timestep')}"
        return f"<{type(self).__name__}: {counts}, {plural(len(self.lengths), 'episode')}>"

    def __len__(self) -> int:
        return len(self.clip_indices)

    def checksum_clips(self) -> int:
        """Return a checksum that changes with the clips, as far as names and lengths of the episodes show."""
        return crc32(self.lengths.astype(np.int64).tobytes(), self.span % (1 << 32))

    @property
    def clip_weights(self) -> NDArray[np.float64] | None:
        """The weight of each clip: that of its episode; None if all are equal."""
        return None if self.weights is None else np.repeat(self.weights, self.clip_indices.counts)

    def __getitem__(self, number: Any) -> Any:
        """Return a clip, or those of a slice; raises StepError, which is an IndexError."""
        if isinstance(number, slice):
            return self.__getitems__(range(*number.indices(len(self))))
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> Sequence[Item]:
        """Return several clips at once, which costs less than one by one."""
        episodes, starts = self.clip_indices.locate(numbers)
        return self._make_clips(episodes, starts, self.num_steps)

    def _make_clips(self, episodes: NDArray[np.int64], starts: NDArray[np.int64], count: int) -> Sequence[Item]:
        items = self._read_clips(episodes, starts, count)
        if isinstance(items, ClipBatch):
            columns = {name: self._group_actions(name, rows, 2, count) for name, rows in items.columns.items()}
            return ClipBatch(columns, len(items))
        return [{name: self._group_actions(name, rows, 1, count) for name, rows in item.items()} for item in items]

    def _read_clips(self, episodes: NDArray[np.int64], starts: NDArray[np.int64], count: int) -> Sequence[Item]:
        """Return clips with the action of every timestep, transformed."""
        columns = self._read_columns(episodes, starts[:, None] + np.arange(count * self.frameskip))
        return self._transform_all(ClipBatch(columns, len(episodes)))

    def _read_columns(self, episodes: NDArray[np.int64], dense: NDArray[np.int64]) -> Item:
        """Return rows of all columns as they are in items: of actions every timestep, of others every frameskip-th."""
        if defines_slices(type(self)):
            taken = take_slices(self, episodes, dense)
            taken = {
                name: rows if self.is_action(name) or isinstance(rows, list) else rows[:, :: self.frameskip]
                for name, rows in taken.items()
            }
        else:
            steps = {True: dense, False: dense[:, :: self.frameskip]}
            taken = {name: self._take(name, episodes, steps[self.is_action(name)]) for name in self.column_names}
        return {name: self._as_shown(name, rows) for name, rows in taken.items()}

    def _transform_all(self, items: Sequence[Item]) -> Sequence[Item]:
        return items if self.transform is None else [self._apply_transform(item) for item in items]

    def _apply_transform(self, item: Item) -> Item:
        if self.transform is None:
            return item
        result: object = self.transform(item)
        if not isinstance(result, MutableMapping):
            raise DatasetError(f"transform: expected it to return an item, a dict of columns, found {shown(result)}")
        return cast("Item", result)

    def _as_shown(self, column: str, rows: Any) -> Any:
        """Convert rows to the form of items: images with channels first, tensors."""
        if self.channels_first and isinstance(rows, np.ndarray) and self.is_image(column):
            rows = np.moveaxis(rows, -1, -3)
        return as_tensor(rows) if self.as_tensors else rows

    def _group_actions(self, column: str, rows: Any, axis: int, count: int) -> Any:
        """Return the actions of `count` steps, [count, frameskip * A]: skipped timesteps one after the other."""
        if not self.is_action(column) or not hasattr(rows, "reshape"):
            return rows
        width = math.prod(rows.shape[axis - 1 :]) // max(count, 1)
        return rows.reshape(*rows.shape[: axis - 1], count, width)

    # ---- random access to rows -----------------------------------------------------------------------------------

    def load_chunk(self, episodes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> list[Item]:
        """Return the timesteps [start, end) of an episode each, as items.

        Raises StepError for timesteps that an episode does not have, DatasetError where actions are not a multiple of
        frameskip.
        """
        items = []
        requests = [whole_numbers(values, "load_chunk", StepError) for values in (episodes, starts, ends)]
        for episode, start, end in zip(*requests, strict=True):
            length = self._length_of(episode)
            if not 0 <= start <= end <= length:
                raise StepError(f"episode {episode}: expected 0 <= start <= end <= {length}, found {start} and {end}")
            count, remainder = divmod(end - start, self.frameskip)
            if remainder and any(map(self.is_action, self.column_names)):
                wanted = f"a multiple of frameskip {self.frameskip} timesteps with actions"
                raise DatasetError(f"episode {episode}: expected {wanted}, found {end - start}")
            rows = self._load_steps(episode, range(start, end))
            items.append({name: self._group_actions(name, column, 1, count) for name, column in rows.items()})
        return items

    def load_episode(self, episode_idx: int) -> Item:
        """Return a whole episode: observations every frameskip timesteps, the action of every timestep."""
        return self._load_steps(episode_idx, range(self._length_of(episode_idx)))

    def _load_steps(self, episode: int, steps: range) -> Item:
        columns = self._read_columns(np.array([episode]), np.arange(steps.start, steps.stop)[None, :])
        return self._apply_transform({name: rows[0] for name, rows in columns.items()})

    def _length_of(self, episode: int) -> int:
        index = integer(episode)
        if index is None or not 0 <= index < len(self.lengths):
            raise StepError(f"expected an episode below {len(self.lengths)}, found {shown(episode)}")
        return int(self.lengths[index])

    def get_row_data(self, row_idx: int | Sequence[int]) -> Item:
        """Return rows of all columns by their global number, as stored arrays."""
        rows = np.atleast_1d(np.asarray(row_idx))
        if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
            raise StepError(f"expected whole numbers of rows, found {shown(row_idx)}")
        rows = rows.astype(np.int64)
        episodes, steps = self.locate_rows(rows)
        columns = {name: self._take(name, episodes, steps[:, None]) for name in self.column_names}
        columns = {name: column[:, 0] if isinstance(column, np.ndarray) else column for name, column in columns.items()}
        return {name: column[0] for name, column in columns.items()} if np.ndim(row_idx) == 0 else columns

    def locate_rows(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return episode and timestep of rows given by their global number; raises StepError."""
        total = int(self.lengths.sum())
        if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < total):
            raise StepError(f"expected rows below {total}, found {int(rows.min())} to {int(rows.max())}")
        episodes = np.searchsorted(np.cumsum(self.lengths), rows, side="right")
        return episodes, rows - (np.cumsum(self.lengths) - self.lengths)[episodes]

    def get_col_data(self, col: str) -> Any:
        """Return a whole column of all episodes, row by row: an array, a list of texts for a column of texts."""
        self._check_column(col)
        parts = [self.column_rows(col, episode, 0, end) for episode, end in enumerate(self.lengths.tolist()) if end]
        return np.concatenate(parts) if parts and isinstance(parts[0], np.ndarray) else [*chain.from_iterable(parts)]

    def column_rows(self, column: str, episode: int, start: int, stop: int) -> Any:
        """Return timesteps [start, stop) of a column as a stored array; their texts as a list for a column of texts.

        Raises StepError, EntryNotFoundError.
        """
        length = self._length_of(episode)
        if not 0 <= start <= stop <= length:
            raise StepError(f"episode {episode}: expected 0 <= start <= stop <= {length}, found {start} and {stop}")
        steps = np.arange(start, stop)
        rows = self._take(column, np.array([episode]), steps[None, :])
        return rows[0] if isinstance(rows, np.ndarray) else self._take(column, steps * 0 + episode, steps[:, None])

    def read_episode(self, episode: int, *, encoded: bool = False) -> Item:  # noqa: ARG002  (nothing is encoded here)
        """Return all columns of an episode as stored arrays; encoded: frames as they are encoded."""
        length = self._length_of(episode)
        item = load_slice(self, episode, 0, length) if defines_slices(type(self)) else dict.fromkeys(self.column_names)
        numbers = {name: rows for name, rows in item.items() if rows is not None and not isinstance(rows, str)}
        return {name: numbers.get(name, self.column_rows(name, episode, 0, length)) for name in item}

    def get_dim(self, col: str) -> int:
        """Return the number of values per row of a column."""
        self._check_column(col)
        return int(np.prod(np.shape(self.get_row_data(0)[col])))

    def _check_column(self, column: str) -> None:
        if column not in self.column_names:
            raise EntryNotFoundError(f"no column {column!r}; there are {', '.join(self.column_names) or 'none'}")
