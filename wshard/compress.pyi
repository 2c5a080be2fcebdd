from wshard.reference.compress import *
