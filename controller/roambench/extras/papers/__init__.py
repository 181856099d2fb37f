"""Our runs beside the numbers that papers printed; pure."""
