"""Convert between formats: import path of the reference package."""

from __future__ import annotations

from wshard.formats.detect import detect_format, detect_format_bytes
from wshard.training.conversion.single import convert, load, save

__all__ = ["convert", "detect_format", "detect_format_bytes", "load", "save"]
