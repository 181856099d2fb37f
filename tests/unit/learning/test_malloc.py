from __future__ import annotations

import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
import numpy as np
from roambench.learning.malloc import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(20):
    blocks = [np.ones(5_000_000) for _ in range(2)]  # 40 MB each: always mapped by default
    del blocks
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    blocks = [np.ones(5_000_000) for _ in range(2)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_freed_memory_is_kept_instead_of_being_mapped_again():
    def faults(argument: str) -> int:
        command = [sys.executable, "-c", _FAULTS, argument]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert faults("keep") < faults("leave") / 5
