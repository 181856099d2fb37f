"""For how many models a run on virtual devices asks the disk for room."""

from roambench.runner.system_runs.hierarchical import models_at_once
from small_traces import drawn_trace


def test_room_is_asked_for_devices_that_come_those_in_training_and_two_models_per_access_point() -> None:
    # Two of three devices ever come, both at step 1; two access points.
    assert models_at_once(drawn_trace(["aab", "-a-", "---"])) == 2 + 2 + 2 * 2
