"""The parts of `benchmarks/soak.py`: random faults in real runs, and whether they did any harm."""
