"""The needs of a run before it runs: hours, joules, bytes and disk."""
