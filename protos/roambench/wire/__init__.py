"""The messages that travel between controller and agents, and the servers that take them."""
