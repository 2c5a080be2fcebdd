"""Other programs' episode formats, each behind the Protocols of formats/base.py.

Data of a format that is not read here are brought by a few lines of your own: read the arrays with whatever reads
them, and save each episode as a file. T is the number of timesteps of an episode; arrays are [T, ...]:

    from wshard import Channel, Episode, TimebaseSpec, save_wshard

    episode = Episode(
        "demo-0000",
        "kitchen",  # the environment
        len(actions),
        timebase=TimebaseSpec(tick_hz=15.0),  # timesteps per second
        observations={"state": Channel.of("state", states)},  # images are uint8 [T, height, width, 3]
        actions={"ctrl": Channel.of("ctrl", actions)},
        rewards=rewards,
        metadata={"task": "open the drawer", "success": True},
    )
    save_wshard(episode, f"recordings/{episode.id}.wshard")

What the arrays are, and where episodes end:

    LeRobot             pyarrow.parquet.read_table(file): np.stack(column.to_pylist()) of "observation.state" and
                        "action"; an episode ends where "episode_index" changes
    robomimic (HDF5)    h5py.File(path)["data"][demo]: "obs/...", "actions", "rewards"; each demo is an episode
    Minari (HDF5)       h5py.File(path)["episode_0"]: "observations" (one more than actions), "actions", "rewards"
    D4RL (HDF5)         h5py.File(path): "observations", "actions", "rewards"; behind each "terminals" or "timeouts"
    zarr replay buffers zarr.open(path)["data"]; episodes end at ["meta"]["episode_ends"]
    RLDS (TFDS)         np.stack of each key of the steps in episode["steps"].as_numpy_iterator()

`wshard convert` and `wshard.formats.convert` read and write the formats of `wshard.formats.table.FORMATS`.
"""
