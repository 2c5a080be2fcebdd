"""Replace the files of a data set inside of a folder, and keep the files of others there."""
