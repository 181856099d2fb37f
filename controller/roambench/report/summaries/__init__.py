"""What run folders hold, read once and summed up, with the doubts that a reader must see."""
