"""What travels between controller and agents."""
