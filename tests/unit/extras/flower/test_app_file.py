"""A Flower app's project file, as editors leave it."""

from __future__ import annotations

from pathlib import Path

from roambench.extras.flower.app import read_app

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
