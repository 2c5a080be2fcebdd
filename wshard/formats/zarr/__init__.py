"""Replay buffers in zarr, as used by Diffusion Policy and UMI: read and written in place."""
