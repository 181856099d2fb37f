"""Files for tests of the command line."""

#: An experiment that is over in a second, with nothing to download, and a sweep of it.
TINY = """\
name = "tiny"
systems = ["mohawk", "hierfavg"]
trace = { steps = 4, parameters = { devices = 6 } }
fleet = { agents = 6, aps = 2 }
"""
SWEEP = """\
experiment = "tiny.toml"
fleet = "rehearsal"
metrics = ["wasted_share", "trainings"]
[grid]
systems = ["mohawk", "hierfavg"]
seeds = 2
"""
