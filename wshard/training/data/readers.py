"""Readers of the world-model formats by the names and options of the original program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wshard.errors import AmbiguousFormatError, DatasetError, EntryNotFoundError, SourceNotFoundError
from wshard.formats.base import open_source
from wshard.training.data.cache import dataset_folder
from wshard.training.data.source_dataset import SourceDataset, list_names
from wshard.training.data.writers import refuse_option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wshard.training.data.batch import Item
    from wshard.training.data.source_dataset import Merges

    Place = str | os.PathLike[str] | None
    Transform = Callable[[Item], Item] | None


class HDF5Dataset(SourceDataset):
    """Clips of one HDF5 file: `path`, or `name` for NAME.h5 in the folder of data sets."""

    def __init__(  # noqa: PLR0913, PLR0917  (the signature of the original)
        self,
        name: str | None = None,
        frameskip: int = 1,
        num_steps: int = 1,
        transform: Transform = None,
        keys_to_load: Sequence[str] | None = None,
        keys_to_cache: Sequence[str] | None = None,
        keys_to_merge: Merges | None = None,
        cache_dir: Place = None,
        path: Place = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        refuse_option("storage_options", storage_options)
        self.h5_path = find_h5(_dataset_path(name, path, cache_dir, "{}.h5"))
        super().__init__(
            [open_source(self.h5_path, "hdf5")],
            frameskip,
            num_steps,
            transform,
            keys_to_load=keys_to_load,
            keys_to_cache=keys_to_cache,
            keys_to_merge=keys_to_merge,
        )


class FolderDataset(SourceDataset):
    """Clips of a folder of .npz columns and JPEG frames; folder_keys: the columns of frames, by default all."""

    _format = "folder"

    def __init__(  # noqa: PLR0913, PLR0917  (as above)
        self,
        name: str | None = None,
        frameskip: int = 1,
        num_steps: int = 1,
        transform: Transform = None,
        keys_to_load: Sequence[str] | None = None,
        folder_keys: Sequence[str] | None = None,
        cache_dir: Place = None,
        path: Place = None,
        *,
        keys_to_cache: Sequence[str] | None = None,
        keys_to_merge: Merges | None = None,
    ) -> None:
        folder = _dataset_path(name, path, cache_dir, "{}")
        if name is not None and path is None and cache_dir is not None:
            direct = Path(cache_dir, name)  # unlike for the other readers, in the folder itself
            folder = str(direct) if direct.exists() or not Path(folder).exists() else folder
        self.path = Path(folder)
        super().__init__(
            [open_source(folder, self._format)],
            frameskip,
            num_steps,
            transform,
            keys_to_load=keys_to_load,
            keys_to_cache=keys_to_cache,
            keys_to_merge=keys_to_merge,
        )
        folder_keys = list_names(folder_keys, "folder_keys")
        chosen = self.name_loaded(folder_keys or ())
        encoded_keys = [key for key, column in self.columns.items() if column.lane is not None and column.lane.encoding]
        self.folder_keys = encoded_keys if folder_keys is None else chosen
        if folder_keys is not None:
            self._names = [key for key in self._names if key not in encoded_keys or key in chosen]

    def get_col_data(self, col: str) -> Any:
        """Return a whole column of numbers; raises EntryNotFoundError for frames, unless they are cached."""
        if self.is_image(col) and col not in self._cached:
            raise EntryNotFoundError(f"column {col!r} is not in cache: its frames are read clip by clip")
        return super().get_col_data(col)


class ImageDataset(FolderDataset):
    """A folder whose frames are the column `pixels`, or the columns image_keys."""

    def __init__(self, name: str | None = None, image_keys: Sequence[str] | None = None, **kw: Any) -> None:
        super().__init__(name, folder_keys=image_keys or ["pixels"], **kw)


class VideoDataset(FolderDataset):
    """A folder of .npz columns and one MP4 per episode; video_keys: the columns of frames, by default all."""

    _format = "video"

    def __init__(self, name: str | None = None, video_keys: Sequence[str] | None = None, **kw: Any) -> None:
        super().__init__(name, folder_keys=video_keys, **kw)


class LanceDataset(SourceDataset):
    """Clips of a Lance table: path `NAME.lance`, or the folder that has one table, or table_name in it.

    image_columns: the columns of encoded images to load, by default all.
    """

    _format = "lance"

    def __init__(  # noqa: PLR0913  (as above)
        self,
        path: Place = None,
        table_name: str | None = None,
        *,
        uri: Place = None,
        frameskip: int = 1,
        num_steps: int = 1,
        transform: Transform = None,
        keys_to_load: Sequence[str] | None = None,
        keys_to_cache: Sequence[str] | None = None,
        keys_to_merge: Merges | None = None,
        image_columns: Sequence[str] | None = None,
        episode_index_column: str = "episode_idx",
        step_index_column: str = "step_idx",
        connect_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        refuse_option("episode_index_column", episode_index_column, "episode_idx")
        refuse_option("step_index_column", step_index_column, "step_idx")
        refuse_option("connect_kwargs", connect_kwargs)
        table = find_table(_dataset_path(None, uri if path is None else path, None, "{}"), table_name)
        super().__init__(
            [open_source(table, self._format)],
            frameskip,
            num_steps,
            transform,
            keys_to_load=keys_to_load,
            keys_to_cache=keys_to_cache,
            keys_to_merge=keys_to_merge,
        )
        self.table_name = table.stem
        requested = list_names(image_columns, "image_columns")
        chosen = self.name_loaded(requested or ())
        images = {name for name in self._names if self.is_image(name)}
        for name in chosen:
            if not self.find_column(name).is_image:
                raise DatasetError(f"image_columns: expected columns of encoded images, found {name!r}")
        self.image_columns = images if requested is None else {name for name in chosen if name in images}
        if not keys_to_load:  # other encoded columns are neither numbers nor wanted images
            self._names = [name for name in self._names if name not in images - self.image_columns]


class LanceVideoDataset(LanceDataset):
    """Clips of a Lance table with the videos of its episodes in a table beside it; video_keys: by default all.

    decoder_cache_size, blob_buffer_size: accepted for compatibility, without effect.
    """

    _format = "lance_video"

    def __init__(
        self,
        path: Place = None,
        *,
        video_keys: Sequence[str] | None = None,
        decoder_cache_size: int = 16,  # noqa: ARG002  (see above)
        blob_buffer_size: int = 1 << 22,  # noqa: ARG002  (see above)
        **kw: Any,
    ) -> None:
        super().__init__(path, **kw)
        video_keys = list_names(video_keys, "video_keys")
        if video_keys is not None:
            chosen = self.name_loaded(video_keys)
            videos = {
                key for key, column in self.columns.items() if column.lane is not None and column.lane.encoding == "mp4"
            }
            self._names = [key for key in self._names if key not in videos or key in chosen]


def find_h5(location: str | os.PathLike[str]) -> Path:
    """Return an HDF5 file: the location, or the only one in this folder.

    Raises SourceNotFoundError for none, AmbiguousFormatError for several.
    """
    path = Path(location)
    if not path.is_dir():
        return path
    files = sorted(file for file in path.iterdir() if file.suffix in (".h5", ".hdf5"))
    if not files:
        raise SourceNotFoundError(f"No .h5/.hdf5 file in {path}")
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:10])
        raise AmbiguousFormatError(f"{path}: Ambiguous: expected one .h5/.hdf5 file, found {names}")
    return files[0]


def find_table(location: str | os.PathLike[str], name: str | None = None) -> Path:
    """Return a Lance table: the location, or the table of this name in it, or the only one; raises as find_h5."""
    path = Path(location)
    if name is not None:
        return path / f"{name}.lance"
    if path.suffix.lower() == ".lance" or not path.is_dir():
        return path
    companion_suffixes = ("_episodes.lance", "_videos.lance")
    tables = sorted(
        child
        for child in path.iterdir()
        if child.name.endswith(".lance") and not child.name.endswith(companion_suffixes)
    )
    if not tables:
        raise SourceNotFoundError(f"{path}: cannot infer the table: expected one *.lance, found none")
    if len(tables) > 1:
        names = ", ".join(child.name for child in tables[:10])
        raise AmbiguousFormatError(f"{path}: Ambiguous: expected one table, found {names}: give table_name")
    return tables[0]


def _dataset_path(name: str | None, path: Place, cache_dir: Place, pattern: str) -> str:
    if path is not None:
        return os.fspath(path)
    if name is None:
        raise TypeError("expected a name or a path of a data set, found neither")
    return str(dataset_folder(cache_dir) / pattern.format(name))
