"""Rules by which a device builds the model it starts training from: name -> rule over the AP's model and its
own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from roambench.contract.orders import Vector
from roambench.contract.table import Table
from roambench.vectors import cosine, weighted_mean


@dataclass(frozen=True, slots=True)
class StartInputs:
    """The models that a device has when it starts: flat models of shape (parameters,), never written to.

    `own` is its own model: that of its last training since the last global synchronisation, else that
    synchronisation's global model; None for a device that has neither. `head` are the entries of the
    classifier's last layer, which MIDDLE+ keeps for the device.
    """

    ap: Vector
    own: Vector | None = None
    head: slice = field(default_factory=lambda: slice(0, 0))
    last_global: Vector | None = None  # of the last global synchronisation that reached the device
    previous_ap: Vector | None = None  # present model of the AP where it was one step ago, if it was sent

    @property
    def fresh(self) -> bool:
        """Return whether the device has not trained since the last global synchronisation."""
        return self.own is None or (
            self.last_global is not None and np.array_equal(self.own, self.last_global)
        )


#: Inputs -> start model.
StartRule = Callable[[StartInputs], Vector]


def ap_model(inputs: StartInputs) -> Vector:
    """The AP's model as it is (HierFAVG, MACFL, MOHAWK, OORT, and who stayed in the MIDDLE family)."""
    return inputs.ap


def own_model(inputs: StartInputs) -> Vector:
    """Greedy: the device's own previous model."""
    return inputs.ap if inputs.own is None else inputs.own


def average(inputs: StartInputs) -> Vector:
    """FedMes and Ensemble: half the AP's model, half the device's own, which stands for its previous AP's."""
    if inputs.own is None:
        return inputs.ap
    return weighted_mean([inputs.ap, inputs.own], np.array([0.5, 0.5]))


def edge_pair(inputs: StartInputs) -> Vector:
    """FedMes and Ensemble to the letter: 1/2 (w_n + w_n'), the current and the previous edge's models."""
    if inputs.previous_ap is None:
        return inputs.ap
    return weighted_mean([inputs.ap, inputs.previous_ap], np.array([0.5, 0.5]))


def similarity_mix(inputs: StartInputs) -> Vector:
    """MIDDLE Eq. 9: (w_a + U w_i) / (1 + U) with U = max(cos(w_i, w_a), 0) of Eq. 8."""
    if inputs.own is None:
        return inputs.ap
    return _mixed(inputs.ap, inputs.own)


def base_mix(inputs: StartInputs) -> Vector:
    """MIDDLE+ for a device that moved (Eq. 21): the base mixed as MIDDLE does, U of the bases; own head."""
    if inputs.own is None:
        return inputs.ap
    start = inputs.own.copy()
    mixed = _mixed(_without(inputs.head, inputs.ap), _without(inputs.head, inputs.own))
    before, after = _base(inputs.head, inputs.ap.size)
    start[before] = mixed[: before.stop]
    start[after] = mixed[before.stop :]
    return start


def own_head(inputs: StartInputs) -> Vector:
    """MIDDLE+ for a device that stayed: the AP's base, the device's own head."""
    if inputs.own is None:
        return inputs.ap
    start = inputs.ap.copy()
    start[inputs.head] = inputs.own[inputs.head]
    return start


START_RULES: Final[Table[StartRule]] = Table(
    what="start rule",
    own={
        "ap": ap_model,
        "own": own_model,
        "average": average,
        "edge_pair": edge_pair,
        "similarity_mix": similarity_mix,
        "base_mix": base_mix,
        "own_head": own_head,
    },
)


def check_start_rule(rule: str) -> None:
    """ConfigError, with the rules there are, where "rule" or "moved|fresh" names one that there is not."""
    for name in rule.split("|", 1):
        START_RULES.load(name)


def start_model(rule: str, inputs: StartInputs) -> Vector:
    """The start model, shape (parameters,). ConfigError lists the rules there are.

    "moved|fresh" is the rule `fresh` for a device that has not trained since the last synchronisation, for
    any other the rule `moved`.
    """
    trained, _, fresh = rule.partition("|")
    chosen = fresh if fresh and inputs.fresh else trained
    return START_RULES.load(chosen)(inputs)


def _mixed(ap: Vector, own: Vector) -> Vector:
    utility = max(cosine(own, ap), 0.0)
    return weighted_mean([ap, own], np.array([1.0, utility]) / (1.0 + utility))


def _base(head: slice, size: int) -> tuple[slice, slice]:
    """The entries before and after the head."""
    return slice(0, head.start), slice(head.stop, size)


def _without(head: slice, model: Vector) -> Vector:
    return np.concatenate([model[part] for part in _base(head, model.size)])
