"""`roambench init`: its file runs, and nothing is overwritten; what is said of PyTorch's builds."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.provision.wheels.agent_build import build_wheel
from roambench.runner.torch_build import advice_on

ROOT = Path(__file__).parents[3]


def test_its_file_runs_and_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["init"])
    assert ended.value.code == 0
    assert "roambench run experiment.toml" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["run", "experiment.toml", "--fleet", "rehearsal"])
    assert ended.value.code == 0
    assert "In one run each, hierfavg wasted " in capsys.readouterr().out
    before = Path("experiment.toml").read_text()
    with pytest.raises(SystemExit) as ended:
        main(["init"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "roambench: experiment.toml: exists already; name another file\n"
    assert Path("experiment.toml").read_text() == before


def test_a_folder_that_is_not_there_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none" / "a.toml"
    with pytest.raises(SystemExit) as ended:
        main(["init", str(file)])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"roambench: {file}: cannot be written: No such file or directory\n"


def test_a_wheel_has_the_files_themselves(tmp_path: Path) -> None:
    """In a checkout one of them is a link."""
    wheel, _ = build_wheel(ROOT, tmp_path)
    with zipfile.ZipFile(wheel) as made:
        assert made.read("roambench/runner/ready/demo.toml") == (ROOT / "experiments/demo.toml").read_bytes()
        assert b"\nseed = 1 " in made.read("roambench/runner/ready/experiment.toml")


@pytest.mark.parametrize(
    ("line", "advised"),
    [
        ("cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", True),
        ("cuda = '12.1'\n", True),
        ("cuda: Optional[str] = None\n", False),
        ("debug = False\n", False),
    ],
)
def test_pytorch_with_cuda_and_no_driver_gets_advice(line: str, advised: bool) -> None:
    """Lines as the version.py of PyTorch's builds have them."""
    advice = advice_on(f"__version__ = '2.13.0+cu130'\n{line}", "2.13.0+cu130")
    assert advice.endswith("whl/cpu torch==2.13.0") == advised
    assert bool(advice) == advised
