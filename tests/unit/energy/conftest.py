"""The benchmark's own signal and meter, in virtual time, shared with the tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def virtual() -> ModuleType:
    """The module benchmarks/attribution.py: a known power signal and a Smart Power 2's view of it."""
    path = Path(__file__).parents[3] / "benchmarks" / "attribution.py"
    spec = importlib.util.spec_from_file_location("attribution_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
