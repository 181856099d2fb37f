"""Idle power: baselines, its drift over a run, and what the instrument itself adds; pure."""
