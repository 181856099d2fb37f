"""The embedded data set, read once by the process that forks a sweep's points: import it there."""

from contextlib import suppress

from roambench.contract.errors import ConfigError
from roambench.learning.datasets.digits import load_digits
from roambench.learning.training import single_threaded

single_threaded()  # no thread may be there when a process is forked
with suppress(ConfigError):  # not installed: each point says so
    load_digits()
