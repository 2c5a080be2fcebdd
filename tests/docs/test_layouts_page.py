"""The page about the user's own data lists what there is."""

from __future__ import annotations

import re

from paths import ROOT

from wshard.formats.layouts.layout import CONTAINERS, ROLES, RULES
from wshard.formats.layouts.named import shipped_layouts

PAGE = ROOT / "docs" / "layouts.md"


def test_it_lists_what_there_is() -> None:
    page = PAGE.read_text()
    words = (*CONTAINERS, *ROLES, *RULES)
    assert [word for word in words if not re.search(rf'[`/"]{re.escape(word)}[`/"]', page)] == []
    assert page.endswith("".join(f"| `{name}` | {one.about} |\n" for name, one in shipped_layouts().items()))
