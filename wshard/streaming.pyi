from wshard.reference.streaming import *
