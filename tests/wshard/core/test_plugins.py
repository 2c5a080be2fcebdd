"""The one loader of plugins: tables, entry points and module paths, and what it says where they lead nowhere."""

from __future__ import annotations

import pytest

from wshard import FormatError
from wshard.core.plugins import announced_plugins, find_plugin, load_plugin
from wshard.errors import MissingExtraError

GROUP = "wshard.tests"


@pytest.fixture
def announced(tmp_path, monkeypatch):
    info = tmp_path / "things-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: things\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nown = things:Mine\nlist = things:List\n")
    (tmp_path / "things.py").write_text("class Mine: pass\n")
    (tmp_path / "needy.py").write_text("import a_module_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_table_comes_before_entry_points(announced):
    table = {"list": "builtins:list"}
    assert announced_plugins(GROUP) == {"own": "things:Mine", "list": "things:List"}
    assert find_plugin("list", table, GROUP) == "builtins:list"
    assert find_plugin("own", table, GROUP) == "things:Mine"
    assert find_plugin("other", table, GROUP) is None
    assert load_plugin("things:Mine", "thing 'own'", unknown=FormatError).__name__ == "Mine"


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("things", FormatError, "thing: expected 'package.module:attribute', found 'things'"),
        (".things:Mine", FormatError, "expected 'package.module:attribute'"),
        ("things:Mine.inner", FormatError, "expected 'package.module:attribute'"),
        ("things:Yours", FormatError, "thing: expected 'Yours' in module 'things', found no such name"),
        (
            "nobody_has_it:X",
            MissingExtraError,
            "thing: expected to import 'nobody_has_it:X': .*: install it, or put its",
        ),
        ("needy:X", MissingExtraError, "'a_module_that_nobody_has': install what is missing"),
    ],
)
def test_what_leads_nowhere_says_so(announced, target, error, message):
    with pytest.raises(error, match=message):
        load_plugin(target, "thing", unknown=FormatError)


def test_a_missing_extra_says_how_to_install_it(announced):
    with pytest.raises(ImportError, match=r"pip install 'wshard\[parquet\]'"):
        load_plugin("needy:X", "thing", unknown=FormatError, extra="parquet")
