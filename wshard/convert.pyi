from wshard.reference.convert import *
