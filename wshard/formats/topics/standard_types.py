"""Definitions of the message types that ROS 2 itself brings: bags of older distributions name types without them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from wshard.plugins import import_library

_OLDER: Final = "ros2_humble"  # the last distribution whose bags lack definitions


def define_standard_type(name: str, distribution: str) -> str | None:
    """Return the definition of a type with all that it refers to, None for a type that ROS 2 does not bring.

    distribution: such as "jazzy"; one that is not known, or "", counts as "humble". Raises MissingExtraError.
    """
    try:
        text, _ = _open_store(f"ros2_{distribution}").generate_msgdef(name, ros_version=2)
    except Exception:  # noqa: BLE001  (of the library's own kind, for names that it does not know)
        return None
    return str(text)


@lru_cache(maxsize=4)
def _open_store(name: str) -> Any:
    library = import_library("rosbags.typesys", "mcap")
    known = {store.value: store for store in library.Stores}
    return library.get_typestore(known.get(name, known[_OLDER]))
