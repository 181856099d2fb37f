"""The messages that travel between controller and agents."""
