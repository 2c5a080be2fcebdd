from wshard.core.media.frames import EncodedFrames as EncodedFrames
from wshard.core.media.frames import ImageFrames as ImageFrames
from wshard.core.media.video_frames import VideoFrames as VideoFrames
from wshard.core.media.images import decode_image as decode_image
from wshard.core.media.images import encode_image as encode_image
from wshard.core.media.video_writer import encode_video as encode_video
