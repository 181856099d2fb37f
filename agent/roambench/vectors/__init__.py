"""Flat models: weighted sums, dot products and cosines in fixed order (NumPy)."""
