"""Episodes in HDF5 files: robomimic, ALOHA, ManiSkill, D4RL; and what all readers of HDF5 have in common."""
