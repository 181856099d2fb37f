"""What a trace looks like: its figures, its page, its pictures."""
