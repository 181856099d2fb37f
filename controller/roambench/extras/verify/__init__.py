"""First contact: what this project assumes of boards and meters, checked on one board with its meter."""
