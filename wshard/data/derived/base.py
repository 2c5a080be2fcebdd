"""The base of data sets made of one other, whose columns and kinds they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wshard.data.dataset import Dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DerivedDataset(Dataset):
    """A data set whose columns are those of `dataset`.

    lengths, offsets: as in Dataset. same_clips: its frameskip, num_steps and transform are those of `dataset`, too.
    """

    def __init__(
        self, dataset: Dataset, lengths: NDArray[Any], offsets: NDArray[Any], *, same_clips: bool = True
    ) -> None:
        clips = (dataset.frameskip, dataset.num_steps, dataset.transform) if same_clips else ()
        super().__init__(lengths, offsets, *clips)
        self.as_tensors, self.channels_first = dataset.as_tensors, dataset.channels_first
        self.dataset = dataset

    @property
    def fork_safe(self) -> bool:
        """Whether forked processes can read from it."""
        return self.dataset.fork_safe

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of an item, beside those that are calculated."""
        return self.dataset.column_names

    def is_image(self, column: str) -> bool:
        """Say whether a column has images."""
        return self.dataset.is_image(column)

    def is_action(self, column: str) -> bool:
        """Say whether a column has actions."""
        return self.dataset.is_action(column)
