"""Data sets by name: their files, fetched and checked, as normalised images."""
