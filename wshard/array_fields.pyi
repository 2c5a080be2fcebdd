from wshard.core.array_fields import *
