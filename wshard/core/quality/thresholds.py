"""The thresholds of the quality checks: defaults, and how to read others from a file."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import QualityError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


CAMERA: Final = "camera-"
"""Prefix of the names of checks of cameras; their results are stored apart from those of the others."""


@dataclass(frozen=True)
class Thresholds:
    """Limits of the quality checks. Score = measured value / limit: 1 and above is flagged; a limit of inf never is.

    The last seven are multiples of the usual distance of a measure from the median (the 85th percentile of the
    environment).

    Args:
        missing: Share of missing timesteps.
        repeated: Share of repeated timesteps.
        backward: Number of timesteps that go back in time; one scores 10.
        jitter: Irregularity of the clock, in periods.
        drift: Drift of the clock, in periods.
        period: Difference to the usual period, in periods.
        finite: Number of timesteps with NaN or infinity; one scores 10.
        short: Share of the usual length.
        frozen: Longest time without a change.
        saturated: Share of values at their limit.
        spike: Largest jump.
        stall: Time without motion.
        lag: Delay between actions and states.
        rough: Roughness of the motion.
        unusual: Distance of the values from usual ones.

    Examples:
        >>> Thresholds(missing=0.01).missing
        0.01
    """

    missing: float = 0.002
    repeated: float = 0.002
    backward: float = 0.1
    jitter: float = 0.2
    drift: float = 0.01
    period: float = 0.2
    finite: float = 0.1
    short: float = 0.15
    frozen: float = 7.0
    saturated: float = 6.0
    spike: float = 3.6
    stall: float = 4.5
    lag: float = 1.5
    rough: float = 6.0
    unusual: float = 35.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise QualityError(f"limit {field.name!r}: expected a number > 0, found {value!r}")


DEFAULT_THRESHOLDS: Final = Thresholds()


def thresholds_from(values: Mapping[str, Any], where: str = "limits") -> Thresholds:
    """Return limits with these values instead of the defaults; QualityError for an unknown name or a wrong value."""
    names = [field.name for field in fields(Thresholds)]
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise QualityError(f"{where}: expected limits among {', '.join(names)}, found {unknown[0]!r}")
    try:
        return replace(DEFAULT_THRESHOLDS, **values)
    except QualityError as error:
        raise QualityError(f"{where}: {error}") from None


def read_thresholds(path: str | os.PathLike[str]) -> Thresholds:
    """Return the limits in a TOML file, or a JSON file whose name ends in .json; QualityError, OSError."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        values = json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise QualityError(f"{path}: expected TOML, or JSON in a file that ends in .json: {error}") from None
    if not isinstance(values, dict):
        raise QualityError(f"{path}: expected names with numbers, found {type(values).__name__}")
    return thresholds_from(values, str(path))
