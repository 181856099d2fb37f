"""How a device builds the model it starts training from: name -> rule over the AP's model and its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from roambench.contract.orders import Vector
from roambench.learning import catalogue

#: (the AP's model, the device's own previous model or None before its first training) -> start model.
#: Rules read their arguments and never write to them.
StartRule = Callable[[Vector, Vector | None], Vector]


def ap_model(ap: Vector, own: Vector | None) -> Vector:
    """The AP's model as it is (HierFAVG, MACFL, MOHAWK)."""
    del own
    return ap


START_RULES: Final[dict[str, StartRule]] = {"ap": ap_model}


def start_model(rule: str, ap: Vector, own: Vector | None = None) -> Vector:
    """The start model, shape (parameters,). ConfigError lists the rules there are."""
    return catalogue.find(START_RULES, rule, what="start rule")(ap, own)
