"""Models, datasets, partitions and local training (torch lives here)."""
