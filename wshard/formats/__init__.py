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

`wshard formats` lists what is read as it is: LeRobot, robomimic, Minari, D4RL, zarr, RLDS, MCAP and more.
`wshard convert` and `wshard.convert_location` read and write the formats of `wshard.formats.table.FORMATS`.
"""
