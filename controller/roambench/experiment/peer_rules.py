"""Mistakes of decentralised experiments that a single key's range cannot show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roambench.experiment.key_values import value_at, value_used
from roambench.systems.peers import is_peer_system
from roambench.written.mistakes import Mistake


def peer_mistakes(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield mistakes of decentralised experiments; nothing for hierarchical systems."""
    systems = values.get("systems")
    named = [name for name in systems if isinstance(name, str)] if isinstance(systems, list) else []
    ours = [name for name in named if is_peer_system(name)]
    if not ours:
        return
    if len(ours) < len(named):
        others = ", ".join(name for name in named if not is_peer_system(name))
        yield Mistake(
            ("systems",), f"expected decentralised systems only beside {ours[0]}, or none, got {others}"
        )
    yield from _peer_learning(values)
    yield from _peer_mobility(values)


def _peer_learning(values: Mapping[str, Any]) -> Iterator[Mistake]:
    if value_at(values, ("learning", "optimiser")) == "adam":
        yield Mistake(
            ("learning", "optimiser"), 'expected "sgd": decentralised systems keep no other state on devices'
        )
    backend, momentum = (
        value_used(values, ("simulated", "backend")),
        value_used(values, ("learning", "momentum")),
    )
    if backend in ("stacked", "ray") and isinstance(momentum, int | float) and momentum > 0:
        yield Mistake(
            ("learning", "momentum"),
            f'expected 0 beside simulated.backend = "{backend}", which does not keep it from one exchange to '
            "the next",
        )


def _peer_mobility(values: Mapping[str, Any]) -> Iterator[Mistake]:
    model, mobile = (value_used(values, ("mobility", key)) for key in ("model", "mobile"))
    agents = value_used(values, ("fleet", "agents"))
    if model == "trace" or type(agents) is not int or type(mobile) is not int:
        return
    if agents == 0:
        yield Mistake(("fleet", "agents"), f'expected a number of devices beside mobility.model = "{model}"')
        return
    if model in ("random", "dam", "dcm") and mobile > agents:
        yield Mistake(("mobility", "mobile"), f"expected at most the {agents} devices, got {mobile}")
    elif model in ("dam", "dcm") and mobile == agents:
        yield Mistake(
            ("mobility", "mobile"),
            f'expected fewer than the {agents} devices: "{model}" goes where static devices are',
        )
