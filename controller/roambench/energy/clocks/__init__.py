"""Clocks of hosts and meters, laid over each other with a bound; pure."""
