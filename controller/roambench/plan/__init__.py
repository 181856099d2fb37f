"""What a run will take, before it runs: hours, joules, bytes and disk."""
