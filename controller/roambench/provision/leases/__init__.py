"""Leases on a bench: claims on disk, the rule of the queue, holding one while something runs."""
