"""What the process of a run has in memory while its agents are there."""

import subprocess
import sys

_LOADED = """
import sys
import roambench.runner.agents.watch, roambench.runner.influx_live
late = "pyarrow.compute", "pyarrow.json", "pyarrow.parquet", "torch"
print(*(name for name in late if name in sys.modules))
"""


def test_a_run_that_only_writes_loads_nothing_that_a_reader_needs() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
