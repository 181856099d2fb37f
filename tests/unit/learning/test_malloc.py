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


_THREADS = """
import sys, threading
import numpy as np
from roambench.learning.malloc import keep_freed_memory

assert keep_freed_memory(arenas=int(sys.argv[1]))
stay, freed = threading.Event(), threading.Barrier(9)

def work():
    with turn:
        np.ones(1_250_000)  # 10 MB, freed at once
    freed.wait()
    stay.wait()

turn = threading.Lock()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
freed.wait()
print(int(open("/proc/self/statm").read().split()[1]) * 4096)
stay.set()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_with_one_arena_threads_take_what_others_freed():
    def resident_bytes(arenas: str) -> int:
        command = [sys.executable, "-c", _THREADS, arenas]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert resident_bytes("1") < resident_bytes("0") - 20e6
