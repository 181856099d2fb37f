"""Joules from readings and phases, the ledger, the communication model. Pure."""
