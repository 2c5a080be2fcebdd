"""Install what `make dist` built, this folder and its git address, with each Python there is: `make installs`.

Each installation is a fresh environment, where an archive is made, searched and served.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = """
from wshard import save_wshard
from wshard.testing import make_episode
for seed in range(4):
    save_wshard(make_episode(seed), f"episodes/ep_{seed}.wshard")
"""
TYPED = "import bridge, catalog, embedders, wshard, pathlib as p\nfor m in (bridge, catalog, embedders, wshard):"
TYPED += "\n    assert p.Path(m.__file__).with_name('py.typed').exists() and 'site-packages' in m.__file__, m"


def find_python(version: str) -> str | None:
    """Return the program of this version, None if there is none; a name on the path may be a stand-in that fails."""
    homes = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob(f"{version}.*/bin/python")
    for program in (shutil.which(f"python{version}"), *map(str, sorted(homes)), sys.executable):
        code = "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"
        if program:
            found = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
            if found.stdout.strip() == version:
                return program
    return None


def check(python: str, what: str, scratch: Path) -> str:
    """Install `what` with the extra `web` in a fresh environment, and use it; return the command's version."""
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "episodes").mkdir(parents=True)
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "WSHARD"))}

    def run(*command: object) -> str:
        texts = [str(word) for word in command]
        done = subprocess.run(texts, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(texts)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout

    run(python, "-m", "venv", "venv")
    binaries = scratch / "venv" / ("Scripts" if os.name == "nt" else "bin")
    for wanted in (what, "wshard[web]"):  # the latter adds to what is installed then
        run(binaries / "python", "-m", "pip", "install", "-q", wanted)
    wshard = binaries / "wshard"
    run(binaries / "python", "-c", RECORD)
    run(binaries / "python", "-c", TYPED)
    run(wshard, "ingest", "episodes")
    if run(wshard, "search", "episodes/ep_1.wshard", "--top", "2").count("ep_") < 2:
        raise RuntimeError(f"{what}: expected two hits")
    with subprocess.Popen(  # pages are served, or the command fails
        [wshard, "serve", "--port", "0", "--no-open"], cwd=scratch, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            lines = iter(server.stdout or ())
            address = next(word for line in lines for word in line.split() if word.startswith("http://"))
            with urllib.request.urlopen(address.partition("?")[0].rstrip("/") + "/static/main.js", timeout=60) as page:  # noqa: S310
                if not page.read():
                    raise RuntimeError(f"{what}: expected pages")
        finally:
            server.terminate()
    return run(wshard, "--version").strip()


def main() -> int:
    """Check each form with each version; say which Pythons are not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path, help="folder with one wheel and one sdist")
    parser.add_argument("--pythons", nargs="+", default=["3.11", "3.12", "3.13"])
    parser.add_argument("--forms", nargs="+", default=["wheel", "sdist", "folder", "git"])
    arguments = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        clone = scratch / "clone"  # as committed, without anything built
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        places = {
            "wheel": next(arguments.dist.resolve().glob("*.whl")).as_uri(),
            "sdist": next(arguments.dist.resolve().glob("*.tar.gz")).as_uri(),
            "folder": clone.as_uri(),
            "git": f"git+{clone.as_uri()}",
        }
        for version in arguments.pythons:
            python = find_python(version)
            if python is None:
                print(f"Python {version}: not on this machine, not checked", flush=True)
                continue
            for form in arguments.forms:
                try:
                    result = check(python, places[form], scratch / "home")
                except (RuntimeError, OSError, StopIteration) as error:
                    failures += 1
                    result = f"FAILED\n{error}"
                print(f"Python {version}, {form}: {result}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
