"""The smoke test shows that torch can train here, and leaves the trainer as small as it was."""

from __future__ import annotations

import json
import subprocess
import sys

_SCRIPT = """
import json, sys
from roambench.agent.orders.trainer_process import smoke
from roambench.agent.orders.worker import rss_bytes
before = rss_bytes()
said = smoke()
print(json.dumps([said["loss"], rss_bytes() - before, "torch._dynamo" in sys.modules]))
"""


def test_a_training_step_for_show_loads_no_compiler() -> None:
    """Its first 20 MB are the kernels' that any training needs; torch.optim's compiler has 74 MB."""
    ran = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    loss, grown_bytes, compiler = json.loads(ran.stdout)
    assert 0.3 < loss < 1.5  # of two classes, untrained: about ln 2
    assert not compiler
    assert grown_bytes < 40e6
