"""Episodes in HDF5 files: robomimic, ALOHA, ManiSkill, D4RL; and the base of all readers of HDF5."""
