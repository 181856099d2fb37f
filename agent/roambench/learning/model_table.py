"""The model catalogue: name -> builder of a module with unset weights, which `models.build` draws.

Its names are known without torch, which comes with the first row that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from roambench.contract.table import Table

if TYPE_CHECKING:
    from torch import nn

    Builder = Callable[[int, int], nn.Module]  # (input channels, classes) -> module on the meta device

MODELS: Final[Table[Builder]] = Table(
    what="model",
    group="roambench.models",
    own={
        "mohawk_cnn": "roambench.learning.models:mohawk_cnn",
        "middle_cnn2": "roambench.learning.cnns:middle_cnn2",
        "middle_cnn3": "roambench.learning.cnns:middle_cnn3",
        "dfl_cnn": "roambench.learning.cnns:dfl_cnn",
        "gn_lenet": "roambench.learning.cnns:gn_lenet",
        "resnet18": "roambench.learning.resnets:resnet18",
        "resnet50": "roambench.learning.resnets:resnet50",
        "mlp": "roambench.learning.models:mlp",
    },
)
