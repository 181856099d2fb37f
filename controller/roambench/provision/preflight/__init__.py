"""The needs of a run on every host, asked over SSH and judged."""
