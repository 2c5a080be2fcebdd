"""The command `doctor`, which reports installed packages."""

from __future__ import annotations

import platform
from typing import Final

import typer

from wshard.cli.common import EXIT_FAILED, reported

REQUIRED: Final = (
    "numpy", "xxhash", "crc32c", "zstandard", "lz4", "sqlalchemy", "httpx", "typer", "rich", "threadpoolctl"
)  # fmt: skip
OPTIONAL: Final = (
    "ml_dtypes", "numba", "torch", "onnxruntime", "tokenizers", "psycopg", "watchfiles", "pyarrow", "pandas",
    "huggingface_hub", "datasets", "h5py", "PIL", "simplejpeg", "av", "lance", "zarr", "array_record", "mcap",
    "mcap_protobuf", "rosbags", "yaml", "rerun", "starlette", "uvicorn", "jinja2", "openTSNE", "umap", "pacmap",
    "webdataset",
)  # fmt: skip
_PACKAGE_OF_MODULE: Final = {
    "PIL": "pillow",
    "lance": "pylance",
    "mcap_protobuf": "mcap-protobuf-support",
    "yaml": "pyyaml",
    "rerun": "rerun-sdk",
    "umap": "umap-learn",
}


@reported()
def doctor() -> None:
    """Print the versions of required and optional packages; exit 1 if a required one is missing."""
    from wshard import __version__

    typer.echo(f"{'wshard':<16} {__version__}")
    typer.echo(f"{'python':<16} {platform.python_version()} on {platform.system()} {platform.machine()}")
    missing = [name for name in REQUIRED if not _print_version(name, "MISSING (required)")]
    for name in OPTIONAL:
        _print_version(name, "not installed (optional)")
    if missing:
        typer.echo(f"error: missing: {', '.join(missing)}: pip install {' '.join(missing)}", err=True)
        raise typer.Exit(EXIT_FAILED)


def _print_version(module: str, missing_text: str) -> bool:
    """Print a module's version, or `missing_text`, without importing it; return True if it is installed."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    is_installed = find_spec(module) is not None
    try:
        text = version(_PACKAGE_OF_MODULE.get(module, module)) if is_installed else missing_text
    except PackageNotFoundError:  # importable, but not installed by a package manager
        text = "unknown version"
    typer.echo(f"{module:<16} {text}")
    return is_installed
