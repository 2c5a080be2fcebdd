"""URI schemes: the one table of where data can be, and the way from any location to its place."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import IO, TYPE_CHECKING, Final

from wshard.core.arguments import file_object
from wshard.core.files.file_object import OpenFilePlace
from wshard.core.files.local import LocalPlace
from wshard.core.files.place import Place
from wshard.core.messages import public_url
from wshard.core.plugins import load_plugin
from wshard.errors import UnknownSchemeError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    PathOrFile = str | os.PathLike[str] | IO[bytes]
    Location = Place | PathOrFile

_OBJECTS: Final = "wshard.core.files.objects:ObjectPlace"
SCHEMES: Final[MutableMapping[str, str]] = {
    "file": "wshard.core.files.local:of_file_uri",
    "s3": _OBJECTS,
    "gs": _OBJECTS,
    "az": _OBJECTS,
    "https": _OBJECTS,
    "http": _OBJECTS,
    "hf": _OBJECTS,
}
"""URI scheme -> "module:attribute", a Place or a function that returns one for a URI; imported on use.

Other schemes are those of fsspec, if it is installed.
"""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in lower case, "" for a path; raises UnknownSchemeError."""
    found = _SCHEME.match(uri) if "://" in uri else None
    if found is None:
        return ""
    if found[1].lower() not in SCHEMES and not _is_of_fsspec(found[1].lower()):
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise UnknownSchemeError(f"expected a path, or a URI of scheme {known}, found {public_url(uri)!r}")
    return found[1].lower()


def _is_of_fsspec(scheme: str) -> bool:
    """Say whether fsspec is installed and has a file system of this scheme."""
    try:
        fsspec = import_module("fsspec")
    except ImportError:
        return False
    return scheme != "local" and scheme in fsspec.available_protocols()


def local_path(location: Location) -> str:
    """Return the path of a location on a local disk; raises as place_of, FormatError where there is none."""
    return place_of(location).local_path()


def place_of(location: Location) -> Place:
    """Return the place of a path, a URI or a binary file object; a place is returned unchanged.

    Raises UnknownSchemeError, FormatError for anything else, MissingExtraError if the scheme's library is missing.
    """
    if isinstance(location, Place):
        return location
    if isinstance(location, str):
        scheme = scheme_of(location)
        if not scheme:
            return LocalPlace(location)
        make = load_plugin(SCHEMES.get(scheme, _OBJECTS), f"scheme {scheme!r}", unknown=UnknownSchemeError)
        place: Place = make(location)
        return place
    if isinstance(location, os.PathLike):
        return LocalPlace(os.fspath(location))
    return OpenFilePlace(file_object(location, "read"))
