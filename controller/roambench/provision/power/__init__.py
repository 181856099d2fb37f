"""Switching the boards of a bench: one small protocol, a table of what switches them, on, off and cycle."""
