"""The oracle of the authors' simulator: who, of those that would train, comes back in time; pure."""

from __future__ import annotations

from roambench.mobility.association import Association
from roambench.systems.system import System


def returning(
    system: System,
    association: Association,
    step: int,
    steps: int,
    last_sync_step: int,
    chosen: tuple[int, ...],
) -> tuple[int, ...]:
    """Those of `chosen` whose model an AP will accept when they are next seen; all of them if none will.

    HierFAVG: present at t+1. MOHAWK: seen again no later than the next cloud aggregation, whose uploads
    come before it. Cloud aggregations are foreseen by the calendar, as if none could be empty.
    """
    back: set[int] = set()
    sync = last_sync_step
    for later in range(step + 1, steps):
        if not system.eligible(step, later, sync):
            break
        back.update(association.placement(later).devices.tolist())
        if system.cloud_due(later):
            sync = later
    return tuple(device for device in chosen if device in back) or chosen
