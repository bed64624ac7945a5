"""What the package writes down and reads again: one dataclass for each file, checked when it is read."""
