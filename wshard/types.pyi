from wshard.core.array_fields import DType as DType
from wshard.core.types import *
