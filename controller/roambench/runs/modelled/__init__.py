"""Modelled energy of a run on virtual devices: its accounts, a summary, an export."""
