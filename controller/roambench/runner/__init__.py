"""Runs: where they take place, their rounds, their devices; and how a stopped run is resumed."""
