"""Read, write, record and check robot-learning episodes; entry point to the archive, search and catalog.

Every name is imported on first use: `import wshard` loads no other library.
"""

import sys
from types import ModuleType
from typing import Any

from wshard.core.lazy import exports
from wshard.reference.moved import install_finder

__version__ = "0.1.0"


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, but keep `convert` the function when Python has imported the module of that name."""
        if name != "convert" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
install_finder()

__getattr__, __dir__, __all__ = exports(__name__, __file__)
