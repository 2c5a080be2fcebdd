"""Where each format that keeps many episodes in one location is written in tests."""

COLLECTIONS = {
    "robomimic": "a.hdf5",
    "minari": "toy-v0",
    "rlds": "toy",
    "zarr": "a.zarr",
    "lerobot": "a",
    "lerobot_v21": "a",
    "hdf5": "a.h5",
    "folder": "a",
    "lance": "a.lance",
    "shardpack": "a.shardpack",
    "video": "a",
    "lance_video": "b",
}
"""Names by format; a new Sink is tested by all that go through them."""
