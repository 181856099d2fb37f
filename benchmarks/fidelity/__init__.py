"""The parts of `energy_fidelity.py`: emulated runs, how they are measured, what the table says."""
