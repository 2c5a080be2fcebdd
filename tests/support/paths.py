"""Where the checkout, its golden files, its benchmarks and the helpers of tests lie."""

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
GOLDEN = ROOT / "golden"
