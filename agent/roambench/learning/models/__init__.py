"""Models by name: their builders, and the weights that a seed draws."""
