"""A trace in pictures: its figures, its page, its pictures."""
