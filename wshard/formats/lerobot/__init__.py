"""LeRobot data sets: folders of Parquet and MP4 files, codebase v2.0, v2.1 and v3.0."""
