"""DreamerV3 files under the import path that the format's documents name; see formats/dreamer."""

from __future__ import annotations

from wshard.formats.dreamer.files import load_dreamer, save_dreamer

__all__ = ["load_dreamer", "save_dreamer"]
