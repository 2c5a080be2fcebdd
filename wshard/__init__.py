"""Read, write, record and check robot-learning episodes; entry point to the archive, search and catalog.

The latter are imported on first use: `import wshard` loads only numpy and the codecs.
"""

from importlib import import_module

from wshard.core.lazy import exports
from wshard.reference.moved import install_finder

__version__ = "0.1.0"

install_finder()
convert = import_module("wshard.convert").convert  # by that path: otherwise the name is that of the module

__getattr__, __dir__, __all__ = exports(__name__, __file__)
