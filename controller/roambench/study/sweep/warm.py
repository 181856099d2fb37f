"""Facts about this installation that every point of a sweep needs, found once by the process that forks them.

Import it there; forked points then have them, and look for garbage as seldom as a command does. They were a
third of the CPU of a small point's own process.
"""

import gc
from contextlib import suppress

import pyarrow.json as pyarrow_json  # noqa: F401

import roambench.runner.system_runs.decentralised
import roambench.runner.system_runs.hierarchical  # noqa: F401
from roambench.contract.sources import own_code
from roambench.runner.foreign_code import own_needs
from roambench.study.command_process import OBJECTS_PER_COLLECTION

gc.set_threshold(OBJECTS_PER_COLLECTION)
own_code()
own_needs()
with suppress(ImportError):
    import pandas as pandas  # where it is installed, Arrow loads it with the first table
