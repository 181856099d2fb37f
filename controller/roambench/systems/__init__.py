"""One file per learning system: ten choices composed; the catalogue. Pure."""
