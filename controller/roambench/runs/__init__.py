"""The run folder: event log, readings, export."""
