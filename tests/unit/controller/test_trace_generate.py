from __future__ import annotations

from pathlib import Path

import pytest

from roambench.controller.cli import main


def test_one_command_makes_a_trace_and_prints_it_beside_the_published_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "c.parquet"
    small = [word for text in ("devices=9", "steps=48", "places=50", "aps=4") for word in ("--set", text)]
    monkeypatch.setenv("COLUMNS", "160")
    command = ["trace", "generate", "city", "-o", str(output), *small, "--stats"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert not ended.value.code
    told = capsys.readouterr().out
    assert output.is_file()
    assert "48 steps, 9 devices" in told
    assert "Beside MOHAWK (IoTDI 2023)" in told
    assert "Beside New York's check-ins" in told
