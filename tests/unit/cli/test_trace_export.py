"""`roambench trace export`, run as a user runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roambench.cli.main import main
from roambench.mobility.files import write_trace
from roambench.mobility.trace import Trace


def roambench(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["trace", "export", *(str(argument) for argument in arguments)])
    return int(ended.value.code or 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    trace = Trace(
        steps=2,
        step_s=60.0,
        device_names=("ann", "bob"),
        step=np.array([0, 1, 1], np.int32),
        device=np.array([0, 0, 1], np.int32),
        x_m=np.array([1.0, 2.0, 3.5]),
        y_m=np.array([0.0, 0.0, 9.0]),
        ap_names=(),
        ap_x_m=np.empty(0),
        ap_y_m=np.empty(0),
    )
    write_trace(trace, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_the_command_tells_what_it_wrote_and_what_it_could_not_say(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = file.with_suffix(".one")
    assert roambench(file, "-o", output, "--format", "one") == 0
    told = capsys.readouterr()
    assert told.out == f"{output}: 2 steps, 2 devices, 3 fixes\n"
    assert "at 1 of 4 (device, step) pairs the device is away" in told.err
    assert output.read_text() == (
        "0.0 120.0 0.0 3.5 0.0 9.0\n0.0 0 1.0 0.0\n0.0 1 3.5 9.0\n60.0 0 2.0 0.0\n60.0 1 3.5 9.0\n"
    )
    assert roambench(file, "-o", output, "--format", "one", "--absent", "omit") == 0
    assert capsys.readouterr().err == ""
    assert len(output.read_text().splitlines()) == 4


def test_a_trace_without_access_points_is_one_table(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = file.with_suffix(".csv")
    assert roambench(file, "-o", output, "--format", "csv") == 0
    assert capsys.readouterr().out.startswith(f"{output}: ")
    assert output.read_text().splitlines()[1] == "ann,0,1.0,0.0,0,,"
    assert not file.with_name("t-aps.csv").exists()


def test_a_format_that_cannot_is_one_line_and_exit_code_2(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (file, "-o", file.with_suffix(".movements"), "--format", "bonnmotion", "--absent", "omit")
    assert roambench(*command) == 2
    assert capsys.readouterr().err == (
        "roambench: --absent omit: expected stand: bonnmotion cannot leave out who is away\n"
    )
