"""What is directly below a prefix, from the keys that a store lists in order, a page at a time, also of folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wshard.core.files.listing import KeyPage, ObjectStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PAGE: Final = 1000  # keys of one answer
_SKIPPED: Final = 4  # folders with more keys than a page
_EMPTY: Final = 16  # objects without bytes, which may stand for folders
_HIGHEST: Final = "\U0010ffff"


class KeyPages:
    """Pages of one prefix by obstore; is_complete: whether `stream` has yielded all that is there."""

    def __init__(self, obstore: Any, store: Any, prefix: str) -> None:
        self.is_complete = False
        self._obstore, self._store = obstore, store
        # Looked up now: a generator that is dropped as Python ends would look in a module that is gone.
        self._unreadable: type[Exception] = obstore.exceptions.InvalidPathError
        self._prefix, self._start = prefix, len(prefix) + 1 if prefix else 0
        self._last = self._folder = ""  # key of the last object, and name of the last folder
        self._folders = set[str]()
        self._empty = 0

    def stream(self) -> Iterator[KeyPage]:
        """Yield what is there; ends early with keys that cannot be read, and where it would take many requests."""
        offset = None
        for _ in range(1 + _SKIPPED):
            try:
                for metas in self._obstore.list(self._store, self._prefix, offset=offset, chunk_size=_PAGE):
                    yield self._sort(metas)
                    if self._empty > _EMPTY:
                        return
                    if len(metas) == _PAGE and "/" in metas[-1]["path"][self._start :]:
                        break  # go on behind this folder
                else:
                    self.is_complete = True
                    return
            except self._unreadable:  # perhaps in a folder
                return
            offset = f"{metas[-1]['path'][: self._start]}{self._folder}/{_HIGHEST}"

    def rest(self, folders: Sequence[str], metas: Sequence[Any]) -> KeyPage:
        """Return those of the folders and objects below the prefix that `stream` has not yielded."""
        names = [path[self._start :] for path in folders]
        later = [meta for meta in metas if meta["path"] != self._prefix and meta["path"] > self._last]
        return KeyPage(
            [name for name in names if name not in self._folders],
            sorted((meta["path"][self._start :], status_of(meta)) for meta in later),
        )

    def _sort(self, metas: Sequence[Any]) -> KeyPage:
        """Return what some keys are: objects, or in folders."""
        page, start, prefix = KeyPage([], []), self._start, self._prefix
        for meta in metas:
            path = meta["path"]
            name, is_inside, _ = path[start:].partition("/")
            if not is_inside and path != prefix and (meta["size"] or self._is_object(path)):
                self._last = path
                page.objects.append((name, status_of(meta)))
            elif name != self._folder and path != prefix:
                self._folder = name
                if name not in self._folders:
                    self._folders.add(name)
                    page.folders.append(name)
        return page

    def _is_object(self, path: str) -> bool:
        """Return whether an object without bytes is one: obstore names A/B what a console makes as A/B/, a folder."""
        self._empty += 1
        if self._empty > _EMPTY:
            return True
        try:
            self._obstore.head(self._store, path)
        except FileNotFoundError:
            return False
        return True


def status_of(meta: Any) -> ObjectStatus:
    """Return the status of an object that obstore describes."""
    modified = int(meta["last_modified"].timestamp())
    return ObjectStatus(meta["size"], quote_etag(meta["e_tag"] or "") or str(modified), modified)


def quote_etag(etag: str) -> str:
    """Return an etag as requests have it: listings of Azure, and libraries, leave out the quotation marks."""
    return etag if not etag or etag.startswith(('"', "W/")) else f'"{etag}"'
