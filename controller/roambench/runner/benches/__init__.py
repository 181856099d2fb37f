"""Fleets of real agents: on this machine, on hosts, and what hosts have to pass before a run."""
