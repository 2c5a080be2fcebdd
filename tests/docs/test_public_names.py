"""The docs teach public names only: those in the `__all__` of a package, of a facade or of a module of contracts."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re

import pytest
from paths import ROOT

from wshard.reference.moved import find_place

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FACADES = {  # the import paths of the format's reference package, which formats.md lists
    f"wshard.{name}"
    for name in (
        "shard",
        "wshard",
        "types",
        "compress",
        "streaming",
        "chunked",
        "residual",
        "convert",
        "dreamer",
        "huggingface",
    )
} | {"wshard.deepdata_bridge"}
DOCUMENTED = {
    "wshard",
    "embedders",
    "catalog",
    "bridge",
    "bridge.maintenance",
    "bridge.curation",
    "bridge.evaluation",
} | {
    "wshard.data",
    "wshard.media",
    "wshard.shardpack",
    "wshard.webdataset",
    "wshard.testing",
    "embedders.testing",
    "embedders.image.testing",
    "wshard.formats.contract",
}
NOT_IMPORTED = {"bridge.support.waiting", "wshard.partial"} | {  # entry points
    *("wshard.sources", "wshard.sinks", "wshard.embedders", "wshard.indexes"),
}
BLOCK = re.compile(r"^```(?:python)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"(?<![\w./-])(?:wshard|embedders|bridge)(?:\.[A-Za-z_]\w*)+")


def read_imports(text: str) -> list[tuple[str, str]]:
    """Return (module, name) of all imports of this project in the programs of a page."""
    found = []
    for block in BLOCK.findall(text):
        try:
            tree = ast.parse(block)
        except SyntaxError:  # a block without a language may be commands
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                found += [(node.module, name.name) for name in node.names]
            elif isinstance(node, ast.Import):
                found += [(name.name, "") for name in node.names]
    return [
        (module, name) for module, name in found if module.split(".")[0] in {"wshard", "embedders", "catalog", "bridge"}
    ]


def is_public(module: str, name: str) -> bool:
    """Whether a module is documented, and the name in its `__all__`; a facade without one has its own names."""
    if not name or module not in DOCUMENTED | FACADES:
        return not name and module in DOCUMENTED | FACADES
    imported = importlib.import_module(module)
    names = getattr(imported, "__all__", None) if module in FACADES else imported.__all__
    return name in names if names is not None else hasattr(imported, name) and not name.startswith("_")


def is_public_path(path: str) -> bool:
    """Whether a dotted path such as `bridge.open_archive` is a documented module, or a public name of one."""
    module, _, name = path.rpartition(".")
    return path in DOCUMENTED | FACADES | NOT_IMPORTED or is_public(module, name)


def test_names_of_inner_modules_are_not_public():
    assert not is_public("bridge.maintenance.fsck", "check_archive")
    assert not is_public("bridge", "fsck")
    assert read_imports("```\nfrom bridge.maintenance.fsck import check_archive\n```\n") == [
        ("bridge.maintenance.fsck", "check_archive")
    ]
    assert not is_public_path("wshard.formats.open.list_episodes")
    assert is_public_path("bridge.curation.find_leaks")


def test_there_are_few_public_names():
    modules = ["wshard", "embedders", "catalog", "bridge"]
    for package in tuple(modules):
        modules += [info.name for info in pkgutil.walk_packages([str(ROOT / package)], f"{package}.")]
    modules = [name for name in modules if not name.endswith("__main__")]
    listed = [getattr(importlib.import_module(name), "__all__", ()) for name in modules]
    assert len(listed[0]) <= 45
    assert sum(map(len, listed)) <= 300


@pytest.mark.parametrize("module", sorted(DOCUMENTED))
def test_every_public_name_exists_and_is_listed(module):
    imported = importlib.import_module(module)
    for name in imported.__all__:
        assert hasattr(imported, name), name
        assert name in dir(imported), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_public_names_only(page):
    text = page.read_text()
    assert [found for found in read_imports(text) if not is_public(*found)] == []
    paths = {path for code in CODE.findall(text) for path in DOTTED.findall(code)}
    assert sorted(path for path in paths if not is_public_path(path)) == []


def test_every_documented_module_is_in_the_reference():
    shown = {
        name
        for page in (ROOT / "docs" / "api").glob("*.md")
        for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
    }
    assert shown >= {find_place(name) or name for name in DOCUMENTED}
