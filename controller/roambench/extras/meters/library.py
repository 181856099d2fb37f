"""The libraries of meters' makers: optional packages, imported when a meter is opened."""

from __future__ import annotations

import importlib
from typing import Any


def library(module: str, package: str, extra: str) -> Any:
    """The module of an optional package; ValueError says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(
            f"the package {package} is not installed where the meter is read: "
            f"run `.venv/bin/pip install 'roambench[{extra}]'` there"
        ) from None
