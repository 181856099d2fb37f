"""The contents of run folders, read once and summed up, with the doubts that a reader must see."""
