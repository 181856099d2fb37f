"""Local algorithms: a loss of every sample, perhaps proximal terms that hold the model near others, and what
else changes a step.

An order spells its objective with its numbers: "ce", "fedprox:mu=0.01", "middle_plus:lambda2=0.01". Who only
checks the spelling needs no torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from roambench.contract.errors import ConfigError
from roambench.contract.table import Table

if TYPE_CHECKING:
    from torch import Tensor

    #: (logits (n, classes), labels (n,)) -> losses (n,); training descends their mean.
    SampleLoss = Callable[[Tensor, Tensor], Tensor]
    #: (gradients, parameters, start model's parameters, number of the step from 0), parallel lists: writes to
    #: the gradients in place. Called without gradient recording, behind the proximal terms.
    Correction = Callable[[list[Tensor], list[Tensor], list[Tensor], int], None]
#: (number of the step from 0, steps of this training) -> factor of the experiment's learning rate.
Schedule = Callable[[int, int], float]
Anchor = Literal["start", "global"]
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ProximalTerm:
    """strength * |w - anchor|^2 added to the mean loss; its gradient is 2 strength (w - anchor).

    `anchor`: the model training started from, or the last global one. `base_only` leaves the last layer free.
    """

    strength: float
    anchor: Anchor
    base_only: bool = False


@dataclass(frozen=True, slots=True)
class Objective:
    """What a device's mini-batches do. The losses told in replies are `loss`'s alone, without the proximal
    terms.

    A step: gradient of the mean loss, proximal terms, `correct`, clipping to `clip_norm`, then the run's
    optimiser at its learning rate times `schedule`.
    """

    loss: SampleLoss
    proximal_terms: tuple[ProximalTerm, ...] = ()
    correct: Correction | None = None
    clip_norm: float = math.inf  # greatest Euclidean norm of the whole gradient
    schedule: Schedule | None = None

    @property
    def changes_steps(self) -> bool:
        """Whether there is more to it than a loss and proximal terms."""
        return self.correct is not None or self.schedule is not None or self.clip_norm < math.inf

    @property
    def needs_global(self) -> bool:
        """Whether some proximal term pulls towards the global model."""
        return any(term.anchor == "global" and term.strength != 0.0 for term in self.proximal_terms)


@dataclass(frozen=True, slots=True)
class ObjectiveRow:
    """A name's builder and the numbers it takes, with their defaults, in the builder's order."""

    build: Callable[..., Objective]
    numbers: Mapping[str, float] = field(default_factory=dict)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log softmax(logits)[label] of every sample, in nats."""
    from torch.nn import functional

    return functional.cross_entropy(logits, labels, reduction="none")


def plain() -> Objective:
    """Cross-entropy alone."""
    return Objective(cross_entropy)


def fedprox(mu: float) -> Objective:
    """FedProx (Li et al., MLSys 2020, Eq. 2): cross-entropy + mu/2 |w - w_start|^2."""
    return Objective(cross_entropy, (ProximalTerm(0.5 * mu, "start"),))


def middle_plus(lambda1: float, lambda2: float) -> Objective:
    """MIDDLE+ Eq. 22: cross-entropy + lambda1 |phi - phi_start|^2 + lambda2 |phi - phi_global|^2, no half."""
    return Objective(
        cross_entropy,
        (ProximalTerm(lambda1, "start", base_only=True), ProximalTerm(lambda2, "global", base_only=True)),
    )


def _mistakes(name: str, row: ObjectiveRow) -> Iterator[str]:
    """Of a row of another package: it cannot be built from its own defaults, or makes something else."""
    try:
        made: Any = row.build(*row.numbers.values())
    except Exception as error:  # whatever a third party's function does, it is one sentence here
        yield f"cannot be built from its defaults: {type(error).__name__}: {error}"
        return
    if not isinstance(made, Objective):
        yield f"expected it to build an Objective, got {type(made).__name__}"
        return
    for hook in ("loss", "correct", "schedule"):
        value = getattr(made, hook)
        if not callable(value) and (value is not None or hook == "loss"):
            yield f"{hook}: expected a function, got {value!r}"
    if not isinstance(made.clip_norm, int | float) or not made.clip_norm > 0.0:
        yield f"clip_norm: expected a number above 0, got {made.clip_norm!r}"


OBJECTIVES: Final[Table[ObjectiveRow]] = Table(
    what="objective",
    group="roambench.local_algorithms",
    kind=ObjectiveRow,
    mistakes=_mistakes,
    own={
        "ce": ObjectiveRow(plain),
        "fedprox": ObjectiveRow(fedprox, {"mu": 0.01}),
        "middle_plus": ObjectiveRow(middle_plus, {"lambda1": 0.01, "lambda2": 0.01}),
    },
)


def objective(text: str) -> Objective:
    """The objective that `text` spells; ConfigError lists the names and numbers there are."""
    name, numbers = parse_rule(text, "objective")
    row = OBJECTIVES.load(name)
    return row.build(*taken(numbers, row.numbers, text, "objective"))


def parse_rule(text: str, what: str) -> tuple[str, dict[str, float]]:
    """Name and numbers of a rule. ConfigError says which part is not `name` or `name:key=number,...`."""
    name, colon, rest = text.partition(":")
    if not _NAME.fullmatch(name):
        raise ConfigError([f"{what} {text!r}: expected a name, then perhaps ':key=number,...'"])
    numbers: dict[str, float] = {}
    for part in rest.split(",") if colon else ():
        key, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not _NAME.fullmatch(key) or not math.isfinite(number) or key in numbers:
            raise ConfigError([f"{what} {text!r}: {part!r} is not key=number, once each"])
        numbers[key] = number
    return name, numbers


def taken(numbers: Mapping[str, float], defaults: Mapping[str, float], text: str, what: str) -> list[float]:
    """The values of `defaults`' keys, in their order, replaced by those given; ConfigError for others."""
    unknown = sorted(numbers.keys() - defaults.keys())
    if unknown:
        known = ", ".join(defaults) or "no numbers"
        raise ConfigError([f"{what} {text!r}: unknown {', '.join(unknown)}; it takes {known}"])
    return [numbers.get(key, default) for key, default in defaults.items()]
