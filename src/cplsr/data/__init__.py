"""Images on disk, in a hub data set or made by code -> labeled pixels."""
