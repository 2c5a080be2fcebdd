from wshard.reference.residual import *
