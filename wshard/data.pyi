from wshard.training.data import *
