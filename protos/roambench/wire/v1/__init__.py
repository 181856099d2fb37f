"""Version 1 of the wire: generated messages (`make protos` regenerates them) and the method names."""
