"""Where data are: places to list, read and open by range, and the only code that asks a file system about them."""
