"""Readings, host metrics and events: how they come into the spool, and where they are drained to."""
