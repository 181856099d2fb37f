"""One reader per format of recorded movement."""
