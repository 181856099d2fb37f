"""Mistakes of decentralised experiments that a single key's range cannot show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roambench.experiment.peer_sections import MobilitySection
from roambench.systems.peers import is_peer_system
from roambench.written.mistakes import Mistake

_AGENTS = 8  # of a file that does not say


def peer_mistakes(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """The mistakes in `values` (as read, not yet validated); nothing for hierarchical systems."""
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
    yield from _learning(values)
    yield from _mobility(_table(values, "mobility"), _table(values, "fleet").get("agents", _AGENTS))


def _learning(values: Mapping[str, Any]) -> Iterator[Mistake]:
    learning, simulated = _table(values, "learning"), _table(values, "simulated")
    if learning.get("optimiser") == "adam":
        yield Mistake(
            ("learning", "optimiser"), 'expected "sgd": decentralised systems keep no other state on devices'
        )
    backend, momentum = simulated.get("backend", "workers"), learning.get("momentum", 0.9)
    if backend in ("stacked", "ray") and isinstance(momentum, int | float) and momentum > 0:
        yield Mistake(
            ("learning", "momentum"),
            f'expected 0 beside simulated.backend = "{backend}", which does not keep it from one exchange to '
            "the next",
        )


def _mobility(mobility: Mapping[str, Any], agents: Any) -> Iterator[Mistake]:
    defaults = MobilitySection.model_fields
    model = mobility.get("model", defaults["model"].default)
    mobile = mobility.get("mobile", defaults["mobile"].default)
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


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}
