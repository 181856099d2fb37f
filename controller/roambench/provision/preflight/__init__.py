"""What a run needs of every host, asked over SSH and judged."""
