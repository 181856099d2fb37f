"""The live view of runs: reads a run folder while it grows, and serves what is in it as a page."""
