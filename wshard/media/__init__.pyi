from wshard.media.frames import EncodedFrames as EncodedFrames
from wshard.media.frames import ImageFrames as ImageFrames
from wshard.media.video_frames import VideoFrames as VideoFrames
from wshard.media.images import decode_image as decode_image
from wshard.media.images import encode_image as encode_image
from wshard.media.video_writer import encode_video as encode_video
