"""The thresholds of the quality checks: defaults, and how to read others from a file."""

from __future__ import annotations

import json
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

    From `frozen` to `unusual`, they are multiples of the usual distance of a measure from the median (the 85th
    percentile of the environment). Those of cameras are beyond what is usual.

    Args:
        missing: Share of missing timesteps.
        repeated: Share of repeated timesteps.
        backward: Number of timesteps that go back in time; one scores 10.
        jitter: Irregularity of the clock, in periods.
        drift: Drift of the clock, in periods.
        period: Difference to the usual period, in periods.
        nan: Number of timesteps with NaN; one scores 10.
        infinite: Number of timesteps with infinity; one scores 10.
        placeholder: Number of timesteps with a value that stands for none; one scores 10.
        reset: First step, in largest other steps.
        short: Share of the usual length.
        frozen: Longest time without a change.
        saturated: Share of values at their limit.
        spike: Largest jump.
        stall: Time without motion.
        lag: Delay between actions and states.
        rough: Roughness of the motion.
        unusual: Distance of the values from usual ones.
        camera_dark: Share of black frames.
        camera_bright: Share of overexposed frames.
        camera_frozen: Share of frames of spans in which nothing changes.
        camera_dropped: Share of frames that equal the one before.
        camera_reordered: Share of frames that go back and forth.
        camera_blurred: How much less sharp.
        camera_moved: Distance from the usual picture, in usual distances.

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
    nan: float = 0.1
    infinite: float = 0.1
    placeholder: float = 0.1
    reset: float = 5.0
    short: float = 0.15
    frozen: float = 7.0
    saturated: float = 6.0
    spike: float = 3.6
    stall: float = 4.5
    lag: float = 1.5
    rough: float = 6.0
    unusual: float = 35.0
    camera_dark: float = 0.02
    camera_bright: float = 0.02
    camera_frozen: float = 0.1
    camera_dropped: float = 0.03
    camera_reordered: float = 0.04
    camera_blurred: float = 0.15
    camera_moved: float = 1.3

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise QualityError(f"limit {field.name!r}: expected a number > 0, found {value!r}")

    def of_camera(self, check: str) -> float:
        """Return the limit of a check of cameras, named without CAMERA."""
        limit: float = getattr(self, f"camera_{check}")
        return limit


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
    import tomllib

    text = Path(path).read_text(encoding="utf-8")
    try:
        values = json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise QualityError(f"{path}: expected TOML, or JSON in a file that ends in .json: {error}") from None
    if not isinstance(values, dict):
        raise QualityError(f"{path}: expected names with numbers, found {type(values).__name__}")
    return thresholds_from(values, str(path))
