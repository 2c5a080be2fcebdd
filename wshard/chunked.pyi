from wshard.reference.chunked import *
