"""Runs one after the other, unattended for days: their log, their tries, and the care of their boards."""
