"""The benchmarks' own worlds, signals and meters, in virtual time, shared with the tests."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

_BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
# The package, so that tests import from it; no other file of that folder.
sys.path.insert(0, str(_BENCHMARKS))
importlib.import_module("fidelity")
sys.path.remove(str(_BENCHMARKS))


@pytest.fixture(scope="session")
def virtual() -> ModuleType:
    """The module benchmarks/attribution.py: a known power signal and a Smart Power 2's view of it."""
    spec = importlib.util.spec_from_file_location("attribution_benchmark", _BENCHMARKS / "attribution.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
