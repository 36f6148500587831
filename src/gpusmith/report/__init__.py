"""What a run found, and its reports: one file per format, all of the same results."""
