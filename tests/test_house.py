"""The house stays in order: small files and folders, unique class names, terms of the field, documented rooms."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING

from paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGES = ("wshard", "embedders", "catalog", "bridge")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PAGES = sorted((ROOT / "bridge" / "web" / "pages").rglob("*.js"))
HERE = ROOT / "tests" / "test_house.py"
MOST_LINES = 300
MOST_MODULES = 20

LONG = {}
"""Files that are longer than MOST_LINES, and how long they may be: entries only shrink and go."""

PRIVATE_WORDS = {
    *("told", "tell", "held", "hold", "kept", "keep", "lost", "settled", "settle", "due", "wishes", "holdings"),
    *("polar", "sift", "worded", "visit", "freed", "resolved", "asked", "looked", "said", "given", "vain"),
}
"""Words that say nothing to a newcomer: no function, class or module is named by one of them alone."""

PARTICIPLES = {"told", "held", "kept", "lost", "settled"}
"""Words that say what happened to a value instead of what it is: no variable, attribute or parameter is named so."""

ARCHIVE_FILES = {
    "bridge/cli/ingest.py": "whether the archive's database is there",
    "bridge/index/embedded/snapshot.py": "whether a copy for searching is there",
    "bridge/maintenance/check_files.py": "how old what interrupted processes left is",
    "bridge/index/embedded/copy_folders.py": "how old a copy that nobody finished is",
}
"""Modules of bridge that ask the file system, outside of bridge/episodes: about no episode, but what is said here."""

LOCAL_FORMATS = {
    "wshard/formats/draft_sink.py": "the draft to write",
    "wshard/formats/file_per_episode.py": "the file to write",
    "wshard/formats/huggingface.py": "files to upload, and metadata that its library downloaded",
    "wshard/formats/minari/sink.py": "a copy of the file to append to",
    "wshard/formats/topics/unpack_file.py": "a plain copy of a compressed file",
    "wshard/formats/world_model/lance_video_sink.py": "tables to write",
    "wshard/formats/world_model/statements.py": "a table to write",
}
"""Modules of formats that ask the local disk, and for what; all others read through wshard/core/files."""

DISK = (
    *("path.", "stat", "lstat", "open", "listdir", "scandir", "walk", "access", "unlink", "remove", "rename"),
    *("replace", "mkdir", "makedirs", "rmdir", "link", "symlink", "readlink", "pread", "truncate", "utime"),
)
"""Functions of os about files."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text_of(path: Path) -> str:
    return path.read_text()


def definitions(path: Path) -> list[tuple[str, str]]:
    """Return "class" or "def", and the name, of all that a module defines."""
    return re.findall(r"^ *(?:async )?(class|def) (\w+)", text_of(path), re.MULTILINE)


def nodes_of(path: Path, words: set[str]) -> Iterator[ast.AST]:
    """Yield the syntax tree of a module that has one of these words anywhere: parsing all takes seconds."""
    if re.search(rf"(?<![^\W_])(?:{'|'.join(words)})(?![^\W_])", text_of(path)):
        yield from ast.walk(ast.parse(text_of(path)))


def test_files_are_short():
    lengths = {name_of(path): len(text_of(path).splitlines()) for path in (*FILES, *PAGES)}
    assert {name: count for name, count in lengths.items() if count > LONG.get(name, MOST_LINES)} == {}
    assert [name for name in LONG if lengths.get(name, 0) <= MOST_LINES] == [], "shrink the list"


def test_folders_are_small():
    modules: defaultdict[str, int] = defaultdict(int)
    for path in (*FILES, *PAGES):
        modules[name_of(path.parent)] += path.name != "__init__.py"
    assert {folder: count for folder, count in modules.items() if count > MOST_MODULES} == {}


def test_the_root_of_wshard_is_small():
    folder = ROOT / "wshard"
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")}
    modules = {path.stem for path in folder.glob("*.py") if not path.name.startswith("__")}  # stubs name what moved
    assert len(rooms | modules) <= 10


def test_class_names_are_unique():
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for kind, name in definitions(path):
            if kind == "class" and not name.startswith("_"):
                places[name].append(name_of(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_names_are_words_of_the_field():
    found = [(name_of(path), name) for path in FILES for _, name in definitions(path)]
    assert [place for place in found if place[1].strip("_").lower() in PRIVATE_WORDS] == []


def given_name(node: ast.AST) -> str | None:
    """Return the name that code gives to a value: a variable, an attribute or a parameter."""
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr
    return node.arg if isinstance(node, ast.arg) else None


def test_tests_are_in_plain_words():
    words = re.compile(r"(?<![A-Za-z])(?:told|asked|held|kept|looked|mine)(?![A-Za-z])")
    found = [name_of(path) for path in TESTS if path != HERE for _ in words.findall(text_of(path))]
    assert len(found) <= 7, found  # names and messages of the code, which tests quote


def test_values_are_named_by_what_they_are():
    places = {(name_of(path), given_name(node)) for path in FILES for node in nodes_of(path, PARTICIPLES)}
    assert sorted(place for place in places if place[1] and place[1].strip("_").lower() in PARTICIPLES) == []


def test_rooms_say_what_they_are_for():
    rooms = {path.parent for path in FILES}
    said = {room: ast.get_docstring(ast.parse(text_of(room / "__init__.py"))) for room in rooms}
    assert [name_of(room) for room, text in said.items() if not text] == []


def test_module_docstrings_are_short():
    assert [name_of(path) for path in FILES if "Does not know" in text_of(path)] == []


def asks_the_file_system(node: ast.AST) -> bool:
    """Say whether code opens an episode file by itself, or asks whether, or how, a file is there."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "wshard.formats.open" and any(one.name.startswith("open_") for one in node.names)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    of_os = ast.unparse(node.func) in {"os.stat", "os.path.exists", "os.path.getsize", "os.path.getmtime"}
    return of_os or (node.func.attr in {"stat", "exists"} and not node.args)  # as Path has them


def test_bridge_requests_episodes_in_one_room():
    asking = {
        name_of(path)
        for path in (ROOT / "bridge").rglob("*.py")
        if not path.is_relative_to(ROOT / "bridge" / "episodes")
        and any(map(asks_the_file_system, nodes_of(path, {"open", "stat", "exists", "getsize", "getmtime"})))
    }
    assert asking == ARCHIVE_FILES.keys()


def asks_the_local_disk(node: ast.AST) -> bool:
    """Say whether a module uses the file system by itself; types of paths, and drafts that it is given, are no use."""
    if isinstance(node, ast.ImportFrom):
        return node.module in {"glob", "shutil", "tempfile", "wshard.core.files.regular"}
    if isinstance(node, ast.Import):
        return any(one.name in {"glob", "shutil", "tempfile"} for one in node.names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"open", "Path"}
    return isinstance(node, ast.Attribute) and ast.unparse(node).startswith(tuple(f"os.{name}" for name in DISK))


def test_formats_touch_files_in_one_room():
    asking = {
        name_of(path)
        for path in (ROOT / "wshard" / "formats").rglob("*.py")
        if path.parent.name != "contract" and any(map(asks_the_local_disk, ast.walk(ast.parse(text_of(path)))))
    }
    assert asking == LOCAL_FORMATS.keys()
