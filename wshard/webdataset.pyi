from wshard.training.webdataset import *
