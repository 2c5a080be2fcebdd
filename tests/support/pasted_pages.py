"""Pages pasted into an empty folder, from top to bottom, as a reader does: `sh`, `python` and `toml` blocks run.

A `text` block right after one of `sh` or `python` is its output. Decimals in it are free: they depend on the machine.
`...` stands for anything. `WSHARD_PAGES=write pytest tests/docs/test_pages.py -k pasted` writes them anew.
"""

from __future__ import annotations

import io
import re
import shlex
from contextlib import chdir, redirect_stdout
from pathlib import Path

from bridge_episodes import command

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d*\.\d+(?:e[-+]\d+)?")
NOT_RUN = (["pip"], ["cd"], ["git"], ["wshard", "serve"], ["wshard", "watch"])


def _run_line(line: str, folder: Path) -> str:
    words = shlex.split(re.sub(r"(^|\s)#.*", "", line))
    if not words or any(words[: len(start)] == start for start in NOT_RUN):
        return ""
    words, *target = [words] if ">" not in words else [words[: words.index(">")], words[words.index(">") + 1 :]]
    assert words[0] == "wshard", f"expected a line that begins with wshard, found {line!r}"
    done = command(*words[1:], folder=folder)
    assert done.exit_code == ("# exit code 1" in line), f"{line}: {done.output}"
    if target:
        (folder / target[0][0]).write_text(done.stdout)
        return ""
    return done.stdout


def run_page(page: Path, folder: Path) -> tuple[dict[str, object], list[tuple[str, str]]]:
    """Run the blocks of a page in a folder; return the names of its programs and (shown, real) outputs."""
    names: dict[str, object] = {"__name__": "__main__"}
    outputs = []
    with chdir(folder):
        for kind, text, shown in BLOCK.findall(page.read_text()):
            real = ""
            if kind == "python":
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(compile(text, page.name, "exec"), names)  # noqa: S102  (it is our own page)
                real = printed.getvalue()
            elif kind == "sh":
                real = "".join(_run_line(line, folder) for line in text.splitlines())
            elif kind == "toml":
                Path(re.match(r"# (\S+\.toml)", text)[1]).write_text(text)
            if shown and kind in ("python", "sh"):
                outputs.append((shown, "\n".join(line.rstrip() for line in real.splitlines()) + "\n"))
    return names, outputs


def is_same(shown: str, real: str) -> bool:
    """Whether an output is the one shown, but for decimals, the width of columns and what `...` stands for."""
    shown, real = (" ".join(NUMBER.sub("0.0", text).split()) for text in (shown, real))
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), real, re.DOTALL) is not None


def write_outputs(page: Path, outputs: list[tuple[str, str]]) -> None:
    """Write the outputs of a page anew, where they differ in more than decimals."""
    text = page.read_text()
    for shown, real in outputs:
        text = text if is_same(shown, real) else text.replace(f"```text\n{shown}```", f"```text\n{real}```", 1)
    page.write_text(text)
