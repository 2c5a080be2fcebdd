"""The entry point of the command `wshard`: handles Ctrl-C before anything slow is imported."""

from __future__ import annotations

from wshard.cli.interrupts import end_when_interrupted


def main() -> None:
    """Run the command."""
    end_when_interrupted()
    from bridge.cli.main import main as run

    run()
