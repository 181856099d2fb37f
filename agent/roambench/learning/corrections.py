"""Local algorithms that correct every gradient by vectors kept on the device: SCAFFOLD and FedDyn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from roambench.contract.extra_vectors import Merge
from roambench.learning.local_algorithms import LocalAlgorithm, LocalAlgorithmRow, LocalRun, cross_entropy

if TYPE_CHECKING:
    from torch import Tensor


def scaffold() -> LocalAlgorithm:
    """SCAFFOLD (Karimireddy et al., ICML 2020, Algorithm 1 with option II).

    A step: y_i <- y_i - lr (g_i(y_i) - c_i + c). Afterwards c_i+ = c_i - c + (x - y_i) / (K lr) with K the
    steps of this training, and c_i+ - c_i goes up with the model: access points add it, over N, to c.
    """
    return LocalAlgorithm(
        cross_entropy,
        vectors={"c": Merge.SUM},
        keeps=("c_i",),
        correct=_add_control,
        after=_new_control,
        plain_sgd=True,
    )


def _add_control(gradients: list[Tensor], parameters: list[Tensor], run: LocalRun, number: int) -> None:
    for gradient, ours, everybodys in zip(gradients, run.kept["c_i"], run.received["c"], strict=True):
        gradient.sub_(ours).add_(everybodys)


def _new_control(parameters: list[Tensor], run: LocalRun) -> Mapping[str, list[Tensor]]:
    whole = run.steps * run.learning_rate
    changes = [
        (begun - parameter) / whole - everybodys
        for parameter, begun, everybodys in zip(parameters, run.start, run.received["c"], strict=True)
    ]
    run.kept["c_i"] = [ours + change for ours, change in zip(run.kept["c_i"], changes, strict=True)]
    return {"c": changes}


def feddyn(alpha: float) -> LocalAlgorithm:
    """FedDyn (Acar et al., ICLR 2021, Algorithm 1), the device's part: training descends
    L_k(w) - <h_k, w> + alpha/2 |w - w_start|^2, and afterwards h_k <- h_k - alpha (w_k - w_start)."""

    def correct(gradients: list[Tensor], parameters: list[Tensor], run: LocalRun, number: int) -> None:
        rows = zip(gradients, parameters, run.start, run.kept["h"], strict=True)
        for gradient, parameter, begun, ours in rows:
            gradient.sub_(ours).add_(parameter - begun, alpha=alpha)

    def after(parameters: list[Tensor], run: LocalRun) -> Mapping[str, list[Tensor]]:
        rows = zip(parameters, run.start, run.kept["h"], strict=True)
        run.kept["h"] = [ours - alpha * (parameter - begun) for parameter, begun, ours in rows]
        return {}

    return LocalAlgorithm(cross_entropy, keeps=("h",), correct=correct, after=after)


SCAFFOLD: Final = LocalAlgorithmRow(scaffold)
FEDDYN: Final = LocalAlgorithmRow(feddyn, {"alpha": 0.1})
