"""A fleet of virtual devices: orders are carried out by persistent training workers, one per core."""
