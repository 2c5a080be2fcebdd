"""Read, write, record and check robot-learning episodes; entry point to the archive, search and catalog.

The latter are imported on first use: `import wshard` loads only numpy and the codecs.
"""

from wshard.convert import convert  # noqa: F401 -- by that path: otherwise the name is that of the module
from wshard.lazy import exports

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = exports(__name__, __file__)
