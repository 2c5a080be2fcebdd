from wshard.reference.wshard import *
