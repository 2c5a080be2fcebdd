"""The compiled kernel is loaded in a thread, once it is worth it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bridge.alignment import numba_kernel
from bridge.alignment.kernel_loader import KernelLoader

NAME = "bridge.alignment.numba_kernel"


def test_the_compiled_kernel_is_loaded_after_so_many_uses():
    usual, kernel = sys.getswitchinterval(), KernelLoader(NAME, 3)
    assert [kernel.use(), kernel.use()] == [None, None]
    assert kernel._thread is None
    assert kernel.use() in (None, numba_kernel)  # loading has begun
    kernel.wait()
    assert kernel.use() is numba_kernel
    assert sys.getswitchinterval() == usual


def test_without_numba_numpy_goes_on(monkeypatch):
    monkeypatch.delitem(sys.modules, "bridge.alignment.numba_kernel")
    monkeypatch.setitem(sys.modules, "numba", None)
    kernel = KernelLoader(NAME, 1)
    kernel.use()
    kernel.wait()
    assert kernel.use() is None


ENDING = f"""
import os, sys
import bridge.index.embedded.index, bridge.search.retriever
from bridge.alignment.kernel_loader import KernelLoader
assert "numba" not in sys.modules
kernel = KernelLoader({NAME!r}, 1)
kernel.use()
assert "bridge.alignment.numba_kernel" not in sys.modules or kernel.module is not None
child = os.fork()  # waits
assert kernel.module is not None
if child == 0:
    os._exit(kernel.use() is None)
status = os.waitpid(child, 0)[1]
sys.exit(status)
"""


FORKING = f"""
import os, sys
from bridge.alignment.kernel_loader import KernelLoader
assert "logging" not in sys.modules  # whose hook comes before those of whoever is registered earlier
KernelLoader({NAME!r}, 1).use()
while not hasattr(sys.modules.get("logging"), "Formatter"):
    pass
child = os.fork()
if child == 0:
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


GIVING_UP = f"""
import atexit, sys
from bridge.alignment.kernel_loader import KernelLoader
kernel = KernelLoader({NAME!r}, 1)
atexit.register(lambda: kernel.module and sys.stderr.write("waited for the kernel"))  # after its own
kernel.use()
"""


@pytest.mark.parametrize(
    "script", [FORKING, pytest.param(ENDING, marks=pytest.mark.long), pytest.param(GIVING_UP, marks=pytest.mark.long)]
)
@pytest.mark.long
def test_a_process_may_fork_and_end_while_the_kernel_is_loaded(script):
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
