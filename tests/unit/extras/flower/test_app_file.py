"""A Flower app's project file, as editors leave it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.extras.flower.app import read_app, require_flwr

_PROJECT = """[project]
name = "größe"
version = "1.0"
[tool.flwr.app]
publisher = "lab"
[tool.flwr.app.components]
serverapp = "app.server:app"
clientapp = "app.client:app"
[tool.flwr.app.config]
rounds = 3
"""


def test_a_byte_order_mark_is_no_part_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"\ufeff{_PROJECT}", encoding="utf-8")
    app = read_app(tmp_path, {"rounds": 4})
    assert (app.serverapp, dict(app.run_config)) == ("app.server:app", {"rounds": 4})


@pytest.mark.parametrize("version", ["1.31.9", "1.32.0", "1.42.7", "1.43.0"])
def test_releases_of_flwr_that_no_test_ran_with_are_refused(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / f"flwr-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: flwr\nVersion: {version}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if version in ("1.32.0", "1.42.7"):
        assert require_flwr(sys.executable) == version
    else:
        with pytest.raises(ConfigError, match=f"flwr {version}: expected 1.32 to 1.42, with which"):
            require_flwr(sys.executable)
