"""The command `doctor`, which reports installed packages, the app's pages, and modules that hide a package of ours."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from wshard.cli.common import EXIT_FAILED, JsonOption, print_json, reported

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRED: Final = (
    "numpy", "xxhash", "crc32c", "zstandard", "lz4", "sqlalchemy", "httpx", "typer", "rich", "threadpoolctl"
)  # fmt: skip
OPTIONAL: Final = (
    "ml_dtypes", "numba", "torch", "onnxruntime", "tokenizers", "transformers", "safetensors", "timm", "open_clip",
    "psycopg", "watchfiles", "pyarrow", "pandas", "huggingface_hub", "datasets", "h5py", "PIL", "simplejpeg", "av",
    "lance", "zarr", "array_record", "mcap", "mcap_protobuf", "rosbags", "yaml", "rerun", "starlette", "uvicorn",
    "jinja2", "openTSNE", "umap", "pacmap", "webdataset", "obstore", "distributed", "ray",
    "pymilvus",
)  # fmt: skip
PACKAGES: Final = ("bridge", "catalog", "embedders")
"""Those that are installed with wshard, whose names a user's own modules may have, too."""

_PACKAGE_OF_MODULE: Final = {
    "PIL": "pillow",
    "lance": "pylance",
    "open_clip": "open_clip_torch",
    "mcap_protobuf": "mcap-protobuf-support",
    "yaml": "pyyaml",
    "rerun": "rerun-sdk",
    "umap": "umap-learn",
}
_HERE: Final = Path(__file__).resolve().parents[2]


@reported()
def doctor(as_json: JsonOption = False) -> None:
    """Print the versions of packages, and what keeps wshard from working; exit 1 if there is such a problem."""
    report = _examine()
    if as_json:
        print_json(report)
    else:
        for name in ("wshard", "python", "pages"):
            typer.echo(f"{name:<16} {report[name]}")
        for group, missing in (("required", "MISSING (required)"), ("optional", "not installed (optional)")):
            for name, version in report[group].items():
                typer.echo(f"{name:<16} {version or missing}")
    for problem in report["problems"]:
        typer.echo(f"error: {problem}", err=True)
    if report["problems"]:
        raise typer.Exit(EXIT_FAILED)


def find_hiding() -> Iterator[str]:
    """Yield a sentence for each module that programs started in this folder would take for a package of ours.

    A clone of this repository, where one installs it, has the same packages and hides nothing.
    """
    folders = [Path(entry).resolve() for entry in ("", *sys.path)]
    for folder in dict.fromkeys(folders[: folders.index(_HERE) if _HERE in folders else None]):
        for name in () if folder == _HERE or (folder / "wshard" / "__init__.py").is_file() else PACKAGES:
            for path in (folder / name / "__init__.py", folder / f"{name}.py"):
                if path.is_file():
                    yield f"{path} hides the package {name} of wshard from programs started here: rename it"


def _examine() -> dict[str, Any]:
    from wshard import __version__

    required, optional = ({name: _find_version(name) for name in names} for names in (REQUIRED, OPTIONAL))
    missing = [name for name, version in required.items() if version is None]
    problems = [f"missing: {', '.join(missing)}: pip install {' '.join(missing)}"] if missing else []
    problems += find_hiding()
    return {
        "wshard": __version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "pages": "built" if (_HERE / "bridge" / "web" / "static" / "main.js").is_file() else "not built",
        "required": required,
        "optional": optional,
        "problems": problems,
    }


def _find_version(module: str) -> str | None:
    """Return a module's version without importing it, None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    if find_spec(module) is None:
        return None
    try:
        return version(_PACKAGE_OF_MODULE.get(module, module))
    except PackageNotFoundError:  # importable, but not installed by a package manager
        return "unknown version"
