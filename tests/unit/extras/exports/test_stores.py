"""Where MLflow's runs go, and what is said where a tracker's library is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError, RunError
from roambench.extras.exports.mlflow import export_mlflow, store_of
from roambench.extras.exports.wandb import export_wandb
from small_runs import simulated


def test_a_folder_is_a_database_in_it_and_a_server_is_itself(tmp_path: Path) -> None:
    assert store_of(str(tmp_path)) == (f"sqlite:///{tmp_path}/mlflow.db", f"file://{tmp_path}/artifacts")
    assert store_of(f"sqlite:///{tmp_path}/x.db") == (
        f"sqlite:///{tmp_path}/x.db",
        f"file://{tmp_path}/artifacts",
    )
    assert store_of("https://lab:5000") == ("https://lab:5000", None)
    with pytest.raises(ConfigError, match="name the folder itself"):
        store_of(f"file://{tmp_path}")


def test_without_mlflow_the_error_has_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated(tmp_path / "run")
    for library in ("mlflow", "sqlalchemy", "alembic"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(RunError, match=r"needs mlflow.*-m pip install 'alembic"):
        export_mlflow([tmp_path / "run"], str(tmp_path / "store"))
    assert not (tmp_path / "store").exists()


def test_without_wandb_the_error_has_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(RunError, match=r"needs wandb.*-m pip install 'wandb"):
        export_wandb([tmp_path / "run"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
