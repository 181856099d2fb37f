"""Modelled energy of virtual devices; pure."""
