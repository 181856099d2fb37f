"""The baselines of MIDDLE's section VII-A: MIDDLE with one or two choices exchanged."""

from __future__ import annotations

from dataclasses import replace

from roambench.systems import choices
from roambench.systems.middle import middle
from roambench.systems.options import SystemOptions
from roambench.systems.system import EDGE_PAIR, StartModel, System


def oort(options: SystemOptions) -> System:
    """The K devices of the highest statistical utility; nothing is mixed on the device."""
    by_loss = choices.top_k(options.per_ap, choices.most_useful, choices.statistical_utility)
    return replace(middle(options), name="oort", selection=by_loss, start_model=StartModel())


def fedmes(options: SystemOptions) -> System:
    """K devices at random; who moved starts half-way between the AP's model and the previous edge's."""
    return replace(
        middle(options),
        name="fedmes",
        selection=choices.random_k(options.per_ap),
        start_model=_half_way(options),
    )


def greedy(options: SystemOptions) -> System:
    """Oort's selection; who moved goes on with its own model."""
    start = StartModel.of("ap", "own", options.fresh_uses_ap)
    return replace(oort(options), name="greedy", start_model=start)


def ensemble(options: SystemOptions) -> System:
    """Oort's selection and FedMes's start model."""
    return replace(oort(options), name="ensemble", start_model=_half_way(options))


def macfl_same_step(options: SystemOptions) -> System:
    """MACFL as MIDDLE compares it: on the trace's own edges, K devices at random, attention at the edge."""
    return replace(
        middle(options),
        name="macfl_same_step",
        selection=choices.random_k(options.per_ap),
        start_model=StartModel(),
        edge_weights=choices.edge_attention(options.sigma, options.cosine, options.shapes),
    )


def _half_way(options: SystemOptions) -> StartModel:
    """1/2 (w_n + w_n'), with the device's own model for the previous edge's w_n', or with w_n' itself."""
    if options.previous_edge == "edge_pair":
        return StartModel("ap", EDGE_PAIR)
    return StartModel.of("ap", "average", options.fresh_uses_ap)
