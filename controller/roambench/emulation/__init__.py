"""Emulated power meters behind real pseudo-terminals, with the true energy known beside them."""
