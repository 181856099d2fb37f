"""Runs of systems: those with access points, and those without a server; the same on every fleet."""
