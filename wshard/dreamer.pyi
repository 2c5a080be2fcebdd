from wshard.reference.dreamer import *
