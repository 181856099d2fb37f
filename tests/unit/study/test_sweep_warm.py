"""What the process that forks a sweep's points has ready for them."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.lengthy
LOOK = """
import sys, threading
import roambench.study.sweep.warm
from roambench.contract.sources import own_code
from roambench.runner.foreign_code import own_needs
assert own_code.cache_info().currsize == own_needs.cache_info().currsize == 1
assert threading.active_count() == 1 and "grpc" not in sys.modules
"""


def test_it_knows_this_installation_and_can_still_be_forked() -> None:
    subprocess.run([sys.executable, "-c", LOOK], check=True)
