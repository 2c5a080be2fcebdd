"""What programs give as arguments, checked: whole numbers of any kind.

Does not know: what the arguments are for; errors are raised by those who do.
"""

from __future__ import annotations

import operator


def integer(value: object) -> int | None:
    """Return a whole number, of Python or of numpy, as an int; None for anything else, True and False too."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # others are refused below
    except TypeError:
        return None
