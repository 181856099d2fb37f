"""Measured beside modelled communication energy, with a verdict; pure."""
