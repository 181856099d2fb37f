"""What the process that forks a sweep's points has ready for them."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.lengthy
LOOK = """
import gc, sys, threading
import roambench.study.sweep.warm
from roambench.contract.sources import own_code
from roambench.runner.foreign_code import own_needs
assert own_code.cache_info().currsize == own_needs.cache_info().currsize == 1
import roambench.study.sweep.warm_digits
from roambench.learning.datasets.digits import _normalised, load_digits
assert _normalised.cache_info().currsize == 1
load_digits().train_images[:] = 0.0
assert load_digits().train_images.std() > 0.9  # each has its own
assert "roambench.runner.system_runs.hierarchical" in sys.modules
assert gc.get_threshold()[0] == 50_000  # of forked points and workers, too
assert threading.active_count() == 1 and "grpc" not in sys.modules
"""


def test_it_knows_this_installation_and_the_embedded_data_set_and_can_still_be_forked() -> None:
    subprocess.run([sys.executable, "-c", LOOK], check=True)
