from wshard.core.media import *
