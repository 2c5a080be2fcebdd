from wshard.reference.deepdata_bridge import *
