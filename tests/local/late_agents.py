"""Local agents whose answers are late, as the links of a bench may make them."""

from __future__ import annotations

from dataclasses import replace

from roambench.agent.settings import AgentSettings, ChaosSettings
from roambench.fleet.local_agents import LocalAgents


def late_agents(random_s: float, reversed_s: float = 0.0) -> type[LocalAgents]:
    """Takes the place of `LocalAgents` in `runner.benches.local_bench`.

    Each answer waits a keyed part of `random_s`. Those of the last device wait `reversed_s` besides, those of
    each device before it so much more: the first one answers last. In host seconds.
    """

    class LateAgents(LocalAgents):
        def settings_of(self, index: int, name: str) -> AgentSettings:
            fixed_s = reversed_s * (len(self._names) - index)
            return replace(super().settings_of(index, name), chaos=ChaosSettings(random_s, fixed_s))

    return LateAgents
