"""The one table of formats: which module reads and writes each, and what it needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class FormatEntry:
    """The classes of a format, as "module:attribute", and the extra that installs what they need ("" for none).

    sink: "" for a format that is not written. about: a short description. suffix: what the name of a new file or table
    ends with, "" for other folders; it selects the format to write. reader, writer: classes of wshard.data.
    """

    source: str = ""
    sink: str = ""
    extra: str = ""
    about: str = ""
    suffix: str = ""
    reader: str = ""
    writer: str = ""


FORMATS: Final[Mapping[str, FormatEntry]] = {
    "wshard": FormatEntry(
        "wshard.formats.wshard:WShardSource",
        "wshard.formats.wshard:WShardSink",
        about="episode files of this project, whole or in chunks",
        suffix=".wshard",
    ),
    "dreamerv3": FormatEntry(
        "wshard.formats.dreamer.replay:DreamerSource",
        "wshard.formats.dreamer.replay:DreamerSink",
        about="DreamerV3 replay: a folder of .npz files, or one",
        suffix=".npz",
    ),
    "mcap": FormatEntry(
        "wshard.formats.topics.source:McapSource",
        extra="mcap",
        about="MCAP files: messages in JSON, protobuf, ROS 1 or ROS 2, on one clock",
    ),
    "rosbag1": FormatEntry(
        "wshard.formats.topics.source:Rosbag1Source",
        extra="images",
        about="ROS 1 bags: .bag files of version 2.0, compressed ones too",
    ),
    "rosbag2": FormatEntry(
        "wshard.formats.topics.source:Rosbag2Source",
        extra="mcap",
        about="ROS 2 bags: a folder with metadata.yaml and MCAP or SQLite files",
    ),
    "rlds": FormatEntry(
        "wshard.formats.rlds.source:RLDSSource",
        "wshard.formats.rlds.sink:RLDSSink",
        extra="rlds",
        about="RLDS data sets of TFDS: a folder with features.json and TFRecord or ArrayRecord files",
    ),
    "zarr": FormatEntry(
        "wshard.formats.zarr.source:ReplayBufferSource",
        "wshard.formats.zarr.sink:ReplayBufferSink",
        extra="zarr",
        about="replay buffers in zarr, as in Diffusion Policy and UMI: a folder, or a .zip",
        suffix=".zarr",
    ),
    "shardpack": FormatEntry(
        "wshard.training.shardpack.episodes:ShardPackSource",
        "wshard.training.shardpack.episodes:ShardPackSink",
        about="ShardPacks with an episode file in each record",
        suffix=".shardpack",
    ),
    "rrd": FormatEntry(
        sink="wshard.formats.rerun:RerunSink",
        extra="rerun",
        about="recordings for the Rerun viewer: an .rrd file an episode",
        suffix=".rrd",
    ),
    "tdmpc2": FormatEntry(
        "wshard.formats.tdmpc2:TDMPC2Source",
        extra="torch",
        about="TD-MPC2 data: tensors [episodes, steps, ...] in a .pt file",
    ),
    "lance": FormatEntry(
        "wshard.formats.world_model.lance:LanceSource",
        "wshard.formats.world_model.lance_sink:LanceSink",
        extra="lance",
        about="world-model data in a Lance table, frames as JPEG",
        suffix=".lance",
        reader="wshard.training.data.readers:LanceDataset",
        writer="wshard.training.data.writers:LanceWriter",
    ),
    "lance_video": FormatEntry(
        "wshard.formats.world_model.lance_video:LanceVideoSource",
        "wshard.formats.world_model.lance_video_sink:LanceVideoSink",
        extra="lance",
        about="world-model data in a Lance table, videos in a second table",
        reader="wshard.training.data.readers:LanceVideoDataset",
        writer="wshard.training.data.writers:LanceVideoWriter",
    ),
    "folder": FormatEntry(
        "wshard.formats.world_model.folder:ImageFolderSource",
        "wshard.formats.world_model.folder_sink:ImageFolderSink",
        extra="images",
        about="world-model data in a folder: .npz columns, one JPEG per frame",
        reader="wshard.training.data.readers:FolderDataset",
        writer="wshard.training.data.writers:FolderWriter",
    ),
    "hdf5": FormatEntry(
        "wshard.formats.world_model.hdf5:ColumnsHDF5Source",
        "wshard.formats.world_model.hdf5_sink:ColumnsHDF5Sink",
        extra="hdf5",
        about="world-model data in an HDF5 file: columns, ep_len, ep_offset",
        suffix=".h5",
        reader="wshard.training.data.readers:HDF5Dataset",
        writer="wshard.training.data.writers:HDF5Writer",
    ),
    "video": FormatEntry(
        "wshard.formats.world_model.folder:VideoFolderSource",
        "wshard.formats.world_model.folder_sink:VideoFolderSink",
        extra="video",
        about="world-model data in a folder: .npz columns, one MP4 per episode",
        reader="wshard.training.data.readers:VideoDataset",
        writer="wshard.training.data.writers:VideoWriter",
    ),
    "lerobot": FormatEntry(
        "wshard.formats.lerobot.source:LeRobotSource",
        "wshard.formats.lerobot.sink:LeRobotSink",
        extra="lerobot",
        about="LeRobot v2.0, v2.1 and v3.0: a folder of Parquet and MP4 files",
    ),
    "lerobot_v21": FormatEntry(
        sink="wshard.formats.lerobot.sink:LeRobotV21Sink",
        extra="lerobot",
        about="LeRobot v2.1, for programs without support for v3.0; read as lerobot",
    ),
    "robomimic": FormatEntry(
        "wshard.formats.hdf5.robomimic:RobomimicSource",
        "wshard.formats.hdf5.robomimic_sink:RobomimicSink",
        extra="hdf5",
        about="robomimic, LIBERO, MimicGen, robocasa: an HDF5 file with one group data/demo_N per episode",
        suffix=".hdf5",
    ),
    "aloha": FormatEntry(
        "wshard.formats.hdf5.aloha:AlohaSource",
        extra="hdf5",
        about="ALOHA, ACT: one HDF5 file per episode, images raw or as JPEG",
    ),
    "maniskill": FormatEntry(
        "wshard.formats.hdf5.maniskill:ManiskillSource",
        extra="hdf5",
        about="ManiSkill: an HDF5 file with one group traj_N per episode, and a JSON file",
    ),
    "d4rl": FormatEntry(
        "wshard.formats.d4rl.source:D4rlSource",
        extra="hdf5",
        about="D4RL: an HDF5 file with the rows of all episodes",
    ),
    "ogbench": FormatEntry(
        "wshard.formats.d4rl.ogbench:OgbenchSource",
        about="OGBench: an .npz file with the rows of all episodes",
    ),
    "raiden": FormatEntry(
        "wshard.formats.raiden.source:RaidenSource",
        extra="images",
        about="episodes that Raiden converted: a folder each, with a pickle and images a timestep",
    ),
    "minari": FormatEntry(
        "wshard.formats.minari.source:MinariSource",
        "wshard.formats.minari.sink:MinariSink",
        extra="minari",
        about="Minari data sets: a folder with episodes in HDF5, Arrow or Parquet",
    ),
}
"""Every format that this package reads or writes."""

LAYOUT: Final = "layout:"
"""What the name of a format begins with that is a layout: a description of arrays (formats/layouts)."""

BY_SUFFIX: Final[Mapping[str, str]] = {".shard": "wshard"} | {
    entry.suffix: name for name, entry in FORMATS.items() if entry.suffix
}
"""The format of a new path, by the suffix of its name."""

OTHER_ARRAYS: Final = "other_arrays"
"""What detection says of a file of arrays that is of no format."""


_PICKLES: Final = (".pkl", ".pickle", ".p")
_VIDEO: Final = ".mp4"


def is_pickle(path: object) -> bool:
    """Return True for the name of a pickle, which runs code when it is read."""
    return str(path).lower().endswith(_PICKLES)


def kind_without_arrays(path: object) -> str:
    """Return "video" or "pickle" for the name of a file in which no layout is looked for, "" for any other."""
    if str(path).lower().endswith(_VIDEO):
        return "video"
    return "pickle" if is_pickle(path) else ""


def how_to_describe(file: object = "FILE") -> str:
    """Return what to do with a file of arrays that is of no format and of no layout."""
    kind = kind_without_arrays(file)
    if kind == "video":
        return "--layout video takes its frames as an episode"
    if kind == "pickle":
        load = f'pickle.load(open({json.dumps(str(file))}, "rb"))'
        lines = quote(f'import pickle, wshard; wshard.open_archive("lab", create=True).ingest({load})')
        return f"a pickle runs code when it is read, so wshard reads none: if you trust it, `python -c {lines}`"
    name = quote(str(file)) if file != "FILE" else "FILE"
    return f"`wshard layout guess {name}` writes a description that you can edit; give it with --layout"
