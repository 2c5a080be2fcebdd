"""What attributes and single values say about all timesteps: the rate, the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.messages import shown
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing import names
from wshard.formats.layouts.guessing.roles import ArrayGuess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wshard.formats.layouts.guessing.survey import ArrayFacts

_ROLES: Final = {names.TASK: rules.TASK, names.ENVIRONMENT: rules.ENVIRONMENT, names.SUCCESS: rules.SUCCESS}
_RATES: Final = frozenset(("fps", "hz", "freq", "frequency", "rate", "framerate"))
_PERIODS: Final = frozenset(("dt", "period"))
_OTHERS: Final = frozenset(("learning", "success", "frame", "sim", "physics", "render", "image", "video", "camera"))
_USUAL: Final = (0.5, 2000.0)  # timesteps per second


def guess_attributes(attributes: Mapping[str, Any]) -> Iterator[ArrayGuess]:
    """Yield the attributes that have a role in episodes."""
    found: set[str] = set()
    for name, value in attributes.items():
        role = _ROLES.get(names.meaning_of(name), "")
        fits = isinstance(value, (bool, int, np.bool_)) if role == rules.SUCCESS else isinstance(value, str)
        if role and fits and role not in found:
            found.add(role)
            yield ArrayGuess(f"@{name}", (), "", role, f"an attribute, by its name: {shown(value)}")


def guess_rate(arrays: Sequence[ArrayFacts], attributes: Mapping[str, Any]) -> str | None:
    """Return the single value that is the rate, as in a description; None if there is none, or several."""
    single = {f"@{name}": value for name, value in attributes.items()}
    single |= {
        one.path: one.values[0] for one in arrays if one.rows <= 1 and one.values is not None and one.values.size == 1
    }
    found = [how for path, value in single.items() if (how := _as_rate(path, value))]
    return found[0] if len(found) == 1 else None


def _as_rate(path: str, value: Any) -> str:
    words = {*names.tokens_of(path.rpartition("/")[2])}
    if words & _OTHERS or np.size(value) != 1 or np.asarray(value).dtype.kind not in "iuf":
        return ""
    number = float(np.asarray(value).reshape(-1)[0])
    if words & _RATES and _USUAL[0] <= number <= _USUAL[1]:
        return path
    return f"1/{path}" if words & _PERIODS and number > 0 and _USUAL[0] <= 1 / number <= _USUAL[1] else ""
