"""Long trials of whole commands: killed at random moments, given damaged files, under load."""
