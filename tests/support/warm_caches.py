"""Fills the caches that every command fills, in the process that commands are forked of."""

from roambench.contract.sources import own_code
from roambench.runner.foreign_code import is_needed_by_us

is_needed_by_us("sklearn")
own_code()
