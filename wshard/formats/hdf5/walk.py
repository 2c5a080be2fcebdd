"""Walk through the datasets below a group of an HDF5 file, without leaving the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wshard.errors import FormatError, LimitError
from wshard.formats.hdf5.nodes import check_dataset, find, has_data, import_h5py, link_type, open_member

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DATASETS: Final = 4096
"""Maximum number of datasets of one episode."""

_MAX_DEPTH: Final = 12


def walk_datasets(group: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield (path, dataset) of all datasets with data below a group, by name; raises as child and check_dataset do.

    Links to what is yielded under its own name, and to nothing, are passed over.
    """
    walk = _Walk(where)
    for count, (path, dataset) in enumerate(walk.below(group, "")):
        if count >= MAX_DATASETS:
            raise LimitError(f"{where}: expected at most {MAX_DATASETS} datasets, found more")
        check_dataset(dataset, f"{where}: {path!r}")
        yield path, dataset
    for parent, name in walk.links:
        if not walk.has_target(parent, name):
            open_member(parent, name, where)  # raises FormatError


class _Walk:
    """Goes through the groups and datasets below a group; keeps links within the file, and where all else is in it."""

    def __init__(self, where: str) -> None:
        self.links: list[tuple[Any, str]] = []
        self._where, self._addresses = where, set[int]()

    def below(self, group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        where, address = self._where, _address(group)
        if address in self._addresses:
            raise FormatError(f"{where}: {prefix!r}: expected a tree of groups, found a group with two parents")
        if prefix.count("/") > _MAX_DEPTH:
            raise LimitError(f"{where}: {prefix!r}: expected groups in groups at most {_MAX_DEPTH} deep, found more")
        self._addresses.add(address)
        for name in sorted(group):
            if isinstance(name, str) and link_type(group, name) == import_h5py().h5l.TYPE_SOFT:
                self.links.append((group, name))
                continue
            node = open_member(group, name, where)
            if hasattr(node, "keys"):
                yield from self.below(node, f"{prefix}{name}/")
            elif has_data(node):
                self._addresses.add(_address(node))
                yield f"{prefix}{name}", node

    def has_target(self, parent: Any, name: str) -> bool:
        """Return whether a link leads to what was found, or to nothing."""
        path = parent.get(name, getlink=True).path
        start = parent.file["/"] if path.startswith("/") else parent
        names = [one for one in path.split("/") if one not in ("", ".")]
        try:
            node = find(start, "/".join(names), self._where) if names else start
        except FormatError:  # by way of another link
            return False
        return node is None or _address(node) in self._addresses


def _address(node: Any) -> int:
    """Return where a group or dataset is in its file."""
    address: int = import_h5py().h5o.get_info(node.id).addr
    return address
