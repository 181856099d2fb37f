"""Modelled communication energy: Eq. 1 and Eq. 2, named parameters, and their fit on a bench; pure."""
