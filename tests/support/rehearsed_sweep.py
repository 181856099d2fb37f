"""A sweep of two systems and two seeds that computes nothing, for tests of studies."""

from __future__ import annotations

SWEEP = """\
fleet = "rehearsal"
metrics = ["aggregated_per_step"]
[experiment]
[experiment.trace]
steps = 6
parameters = { devices = 20, steps = 12 }
[experiment.fleet]
agents = 4
[grid]
systems = ["mohawk", "hierfavg"]
seeds = 2
"""
