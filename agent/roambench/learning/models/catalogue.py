"""The model catalogue: name -> builder of a module with unset weights, which `models.build.build` draws.

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
        "mohawk_cnn": "roambench.learning.models.build:mohawk_cnn",
        "middle_cnn2": "roambench.learning.models.cnns:middle_cnn2",
        "middle_cnn3": "roambench.learning.models.cnns:middle_cnn3",
        "dfl_cnn": "roambench.learning.models.cnns:dfl_cnn",
        "gn_lenet": "roambench.learning.models.cnns:gn_lenet",
        "resnet18": "roambench.learning.models.resnets:resnet18",
        "resnet50": "roambench.learning.models.resnets:resnet50",
        "mlp": "roambench.learning.models.build:mlp",
    },
)
