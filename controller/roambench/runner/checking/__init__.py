"""What a run folder or a crate says of a run, beside what its raw records and its model give now."""
