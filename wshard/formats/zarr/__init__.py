"""Replay buffers in zarr, as Diffusion Policy and UMI have them: read and written in place."""
