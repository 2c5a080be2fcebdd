"""What outputs of several modules share: plurals, short forms of values, URLs without secrets, advice, strict JSON."""

from __future__ import annotations

import math
import re
import reprlib
from typing import Any, Final

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//)?")
_SIGNED_IN: Final = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]+:/{1,2})[^\s/@:]*:\S+@")
_SECRET: Final = re.compile(r"(?i)\b(token|password|passwd|secret|api_?key|sig|signature)=[^\s&;#'\"]+")
_LISTED: Final = 6  # lanes of an episode
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(:[0-9]*)?")


def plural(count: float, what: str) -> str:
    """Return "1 hit", "2 hits": how many of what there are, a whole number."""
    return f"{count:.0f} {what}" if count == 1 else f"{count:.0f} {what}s"


def public_url(text: str) -> str:
    """Return the printable part of a URL: scheme, host, port and path, without user, password, token and options.

    It may be malformed: anything that could be a part of a password is hidden then.
    """
    begin = _SCHEME.match(text)
    scheme = begin[0] if begin else ""
    plain = re.split(r"[?#;]", text.removeprefix(scheme), maxsplit=1)
    hidden, _, address = plain[0].rpartition("@")
    if "@" in "".join(plain[1:]) or "/" in hidden or not _HOST.fullmatch(address.partition("/")[0]):
        address = "***"
    return f"{scheme}{address}"


def without_passwords(text: str) -> str:
    """Return a message of any origin without what stands before the host in URLs that it quotes, and without tokens."""
    return _SECRET.sub(r"\1=***", _SIGNED_IN.sub(r"\1***@", text))


def error_text(error: Exception) -> str:
    """Return the message of an error for people: "FILE: reason" without a number, and without passwords of URLs."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:  # str(error) begins with "[Errno 2]"
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return without_passwords(text)


def how_to_install(extra: str = "") -> str:
    """Return how an extra is installed, "" for the package itself: from a registry, and from its own folder."""
    named = f"[{extra}]" if extra else ""
    return f"pip install 'wshard{named}', or pip install '.{named}' in its folder"


def shown(value: object) -> str:
    """Return the value as a message shows it: in one line, shortened."""
    return " ".join(reprlib.repr(value).split())


def describe_channel(channel: Any) -> str:
    """Return the repr of a Channel, without its data, which may have to be decoded."""
    return f"<Channel {_describe_lane(channel.name, channel)}, {plural(channel.length, 'timestep')}>"


def describe_episode(episode: Any) -> str:
    """Return the repr of an Episode: id, length and lanes, whatever its attributes have been set to."""
    try:
        lanes = [_describe_lane(block, lane) for block, lane in (episode.lanes() | episode.predictions()).items()]
    except (AttributeError, TypeError):
        lanes = ["unknown lanes"]
    lanes += ["reward"] if episode.rewards is not None else []
    more = [f"and {len(lanes) - _LISTED} more"] if len(lanes) > _LISTED else []
    return f"<Episode {episode.id!r}, length {episode.length}: {', '.join([*lanes[:_LISTED], *more]) or 'no lanes'}>"


def _describe_lane(name: str, lane: Any) -> str:
    encoded = f" {lane.encoded.encoding}" if lane.encoded is not None else ""
    return f"{name} {lane.dtype.value}{lane.shape}{encoded}"


def finite(value: Any) -> Any:
    """Return a JSON-able value with None for NaN and infinities, which strict JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
