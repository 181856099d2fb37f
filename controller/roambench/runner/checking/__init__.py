"""Comparison of all that a run folder or a crate says with what its raw records and its model give now."""
