"""Runs one after the other, unattended for days: their log, their tries, the maintenance of boards."""
