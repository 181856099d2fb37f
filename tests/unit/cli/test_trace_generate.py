from __future__ import annotations

from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.mobility.walks import GENERATORS


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


@pytest.mark.parametrize("name", sorted(GENERATORS.own))
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            ["steps=2000000000"],
            "steps is 2,000,000,000, expected at most 10,000,000, what a trace file holds",
        ),
        (["steps=9000000", "devices=900"], "steps x devices is 8,100,000,000, expected at most 500,000,000"),
    ],
)
def test_more_than_a_file_or_the_memory_holds_is_refused_before_it_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, changes: list[str], problem: str
) -> None:
    settings = [word for change in changes for word in ("--set", change)]
    with pytest.raises(SystemExit) as ended:
        main(["trace", "generate", name, "-o", str(tmp_path / "t.parquet"), *settings])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"roambench: --set {problem}\n"
