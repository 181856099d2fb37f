"""Measured energy of a run: its meters and clocks, its accounts and what they were made by."""
