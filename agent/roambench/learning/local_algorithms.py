"""Local algorithms: how a device trains. A loss of every sample, perhaps proximal terms that hold the model
near others, what else changes a step, what is kept on the device, and what travels besides the model.

An order spells its algorithm with its numbers: "ce", "fedprox:mu=0.01", "scaffold". Who only checks the
spelling needs no torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from roambench.contract.errors import ConfigError
from roambench.contract.extra_vectors import Merge
from roambench.contract.table import Table, first_sentence

if TYPE_CHECKING:
    from torch import Tensor

    #: (logits (n, classes), labels (n,)) -> losses (n,); training descends their mean.
    SampleLoss = Callable[[Tensor, Tensor], Tensor]
    #: (gradients, parameters, the training, number of the step from 0), parallel lists: writes to the
    #: gradients in place. Called without gradient recording, behind the proximal terms.
    Correction = Callable[[list[Tensor], list[Tensor], "LocalRun", int], None]
    #: (parameters, the training), before the first step; may change both `kept` and what is received.
    Before = Callable[[list[Tensor], "LocalRun"], None]
    #: (parameters, the training), behind the last step: returns what is sent of every name of `vectors`, and
    #: writes to `kept`.
    After = Callable[[list[Tensor], "LocalRun"], Mapping[str, list[Tensor]]]
    #: (parameters, learning rate) -> what has a `learning_rate` and `step(gradients)`.
    OptimiserMaker = Callable[[list[Tensor], float], Any]
#: (number of the step from 0, steps of this training) -> factor of the experiment's learning rate.
Schedule = Callable[[int, int], float]
Anchor = Literal["start", "global"]
_WHAT: Final = "local algorithm"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ProximalTerm:
    """strength * |w - anchor|^2 added to the mean loss; its gradient is 2 strength (w - anchor).

    `anchor`: the model training started from, or the last global one. `base_only` leaves the last layer free.
    """

    strength: float
    anchor: Anchor
    base_only: bool = False


@dataclass(slots=True)
class LocalRun:
    """One training as hooks see it. A vector is a list of tensors like the model's parameters, in order.

    `received` came with the model, zeros before anything was sent; `kept` is what the device's last finished
    training left there, zeros at first, also where that training's model was not used.
    """

    start: list[Tensor]  # the parameters that training starts from
    received: dict[str, list[Tensor]]
    kept: dict[str, list[Tensor]]
    steps: int  # SGD steps of this training
    samples: int
    learning_rate: float  # the experiment's, before `schedule`
    seed: int  # of what hooks draw; keyed by (run's seed, device, step)


@dataclass(frozen=True, slots=True)
class LocalAlgorithm:
    """The steps of a device's training. The losses in replies are `loss`'s alone, without the proximal
    terms.

    `before`; then in each step: gradient of the mean loss, proximal terms, `correct`, clipping to
    `clip_norm`, the optimiser at the experiment's learning rate times `schedule`; then `after`. `vectors`
    travel with every model, down and up, and are merged as each says; `keeps` stay on the device. Each has an
    entry per trained parameter.
    """

    loss: SampleLoss
    proximal_terms: tuple[ProximalTerm, ...] = ()
    correct: Correction | None = None
    clip_norm: float = math.inf  # greatest Euclidean norm of the whole gradient
    schedule: Schedule | None = None
    before: Before | None = None
    after: After | None = None
    optimiser: OptimiserMaker | None = None  # None: the experiment's
    vectors: Mapping[str, Merge] = field(default_factory=dict)
    keeps: tuple[str, ...] = ()
    plain_sgd: bool = False  # its equations hold for SGD without momentum only: refused for any other

    @property
    def changes_steps(self) -> bool:
        """Return whether there is more to it than a loss and proximal terms."""
        hooks = (self.correct, self.schedule, self.before, self.after, self.optimiser)
        return any(hooks) or self.clip_norm < math.inf or bool(self.vectors or self.keeps)

    def misfit(self, optimiser: str, momentum: float) -> str:
        """Return why it cannot train with the experiment's optimiser; "" if it can."""
        if not self.plain_sgd or (optimiser == "sgd" and momentum == 0.0):
            return ""
        return (
            'expected learning.optimiser = "sgd" and learning.momentum = 0, for which its equations hold, '
            f'got "{optimiser}" and {momentum:g}'
        )

    @property
    def needs_global(self) -> bool:
        """Return whether some proximal term pulls towards the global model."""
        return any(term.anchor == "global" and term.strength != 0.0 for term in self.proximal_terms)


@dataclass(frozen=True, slots=True)
class LocalAlgorithmRow:
    """A name's builder and the numbers it takes, with their defaults, in the builder's order."""

    build: Callable[..., LocalAlgorithm]
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The line of `roambench list local`: the builder's first sentence, and its numbers."""
        about = first_sentence(self.build)
        numbers = ", ".join(f"{name}={value:g}" for name, value in self.numbers.items())
        return f"{about} ({numbers})" if numbers else about


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log softmax(logits)[label] of every sample, in nats."""
    from torch.nn import functional

    return functional.cross_entropy(logits, labels, reduction="none")


def plain() -> LocalAlgorithm:
    """Cross-entropy alone."""
    return LocalAlgorithm(cross_entropy)


def fedprox(mu: float) -> LocalAlgorithm:
    """FedProx (Li et al., MLSys 2020, Eq. 2): cross-entropy + mu/2 |w - w_start|^2."""
    return LocalAlgorithm(cross_entropy, (ProximalTerm(0.5 * mu, "start"),))


def middle_plus(lambda1: float, lambda2: float) -> LocalAlgorithm:
    """MIDDLE+ Eq. 22: cross-entropy + lambda1 |phi - phi_start|^2 + lambda2 |phi - phi_global|^2, no half."""
    return LocalAlgorithm(
        cross_entropy,
        (ProximalTerm(lambda1, "start", base_only=True), ProximalTerm(lambda2, "global", base_only=True)),
    )


def _mistakes(name: str, row: LocalAlgorithmRow) -> Iterator[str]:
    """Yield the mistakes of another package's row: it cannot be built from its defaults, or makes something
    else."""
    try:
        made: Any = row.build(*row.numbers.values())
    except Exception as error:  # any error of a third party's function is one sentence here
        yield f"cannot be built from its defaults: {type(error).__name__}: {error}"
        return
    if not isinstance(made, LocalAlgorithm):
        yield f"expected it to build a LocalAlgorithm, got {type(made).__name__}"
        return
    for hook in ("loss", "correct", "schedule", "before", "after", "optimiser"):
        value = getattr(made, hook)
        if not callable(value) and (value is not None or hook == "loss"):
            yield f"{hook}: expected a function, got {value!r}"
    if not isinstance(made.clip_norm, int | float) or not made.clip_norm > 0.0:
        yield f"clip_norm: expected a number above 0, got {made.clip_norm!r}"
    vectors: Any = made.vectors
    keeps: Any = made.keeps
    if not isinstance(vectors, Mapping) or any(not isinstance(how, Merge) for how in vectors.values()):
        yield f"vectors: expected names, each with a Merge, got {vectors!r}"
        return
    if vectors and made.after is None:
        yield "vectors: expected an after beside them, which returns what is sent"
    if not isinstance(keeps, tuple):
        yield f"keeps: expected a tuple of names, got {keeps!r}"
    elif len(keeps) > 1 + len(vectors):
        yield (
            f"keeps: expected at most {1 + len(vectors)} names, as many as vectors travel, the model "
            f"included, got {len(keeps)}"
        )


LOCAL_ALGORITHMS: Final[Table[LocalAlgorithmRow]] = Table(
    what=_WHAT,
    group="roambench.local_algorithms",
    kind=LocalAlgorithmRow,
    mistakes=_mistakes,
    own={
        "ce": LocalAlgorithmRow(plain),
        "feddyn": "roambench.learning.corrections:FEDDYN",
        "fedprox": LocalAlgorithmRow(fedprox, {"mu": 0.01}),
        "middle_plus": LocalAlgorithmRow(middle_plus, {"lambda1": 0.01, "lambda2": 0.01}),
        "scaffold": "roambench.learning.corrections:SCAFFOLD",
    },
)


def local_algorithm(text: str) -> LocalAlgorithm:
    """The local algorithm that `text` spells; ConfigError lists the names and numbers there are."""
    name, numbers = parse_rule(text, _WHAT)
    row = LOCAL_ALGORITHMS.load(name)
    return row.build(*taken(numbers, row.numbers, text, _WHAT))


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
