"""Run the demo: `python -m demo` (or `make demo`)."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from wshard.cli.interrupts import end_when_interrupted, interrupt_once


def main() -> int:
    """Parse the options and run the tour; errors and Ctrl-C are reported on one line."""
    end_when_interrupted()
    from demo.tasks import plan  # noqa: PLC0415  (slow import: Ctrl-C must be handled before)
    from demo.tour import run  # noqa: PLC0415  (as above)
    from wshard.errors import WShardError  # noqa: PLC0415  (as above)

    parser = argparse.ArgumentParser(prog="python -m demo", description="The main job end to end, on real episodes.")
    parser.add_argument("--folder", type=Path, default=Path("demo-archive"), help="where everything goes")
    parser.add_argument("--tasks", type=int, default=20, help="MetaWorld tasks, 1 to 20")
    parser.add_argument("--episodes", type=int, default=10, help="episodes per MetaWorld task, at least 2")
    parser.add_argument("--camera-episodes", type=int, default=6, help="episodes per camera environment, at least 1")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="recording processes")
    options = parser.parse_args()
    if options.tasks < 1 or options.episodes < 2 or options.camera_episodes < 1:
        parser.error("expected at least 1 task, 2 episodes and 1 camera episode")
    try:
        interrupt_once()
        run(options.folder, plan(options.tasks, options.episodes, options.camera_episodes), options.workers)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted: finished work is kept; run the same command again to resume\n")
        return 128 + signal.SIGINT
    except (WShardError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    finally:
        end_when_interrupted()
    return 0


if __name__ == "__main__":
    sys.exit(main())
