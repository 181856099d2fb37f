"""Real agents while a run lasts: their clocks, and what they keep for a run that goes on."""
