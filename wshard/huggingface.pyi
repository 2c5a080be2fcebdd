from wshard.reference.huggingface import *
