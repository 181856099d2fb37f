"""An experiment file names a secret and where that is sent: it may name few, and says where to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from problem_lines import without_lines
from roambench.contract.errors import ConfigError, LinkError
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.runner.influx_live import influx_note
from roambench.runner.readings_source import ReadingsSource, open_records
from roambench.runs.folder import RunFolder
from roambench.spool.influx_settings import InfluxSettings
from small_runs import measured


def written(folder: Path, more: str) -> Path:
    path = folder / "x.toml"
    path.write_text(f'[influxdb]\nurl = "https://influx.example"\n{more}\n')
    return path


@pytest.mark.parametrize(
    "name",
    ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HOME", "INFLUX_READ_TOKEN", "ROAMBENCH_WIFI_PASSPHRASE",
     "influx_token", "INFLUX_TOKEN\\n", "XINFLUX_TOKEN", "ROAMBENCH_INFLUX_"],
)  # fmt: skip
def test_a_variable_that_is_not_meant_for_it_is_refused_with_its_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment(written(tmp_path, f'token_env = "{name}"'))
    (problem,) = without_lines(caught.value.problems)
    assert problem.startswith('x.toml: influxdb.token_env: expected "INFLUX_TOKEN", "INFLUXDB_TOKEN" or')
    assert name in problem


@pytest.mark.parametrize("name", ["", "INFLUX_TOKEN", "INFLUXDB_TOKEN", "ROAMBENCH_INFLUX_LAB_2"])
def test_variables_that_are_meant_for_it_are_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name or "INFLUX_TOKEN", "secret")
    section = load_experiment(written(tmp_path, f'token_env = "{name}"')).influxdb
    settings = InfluxSettings(section.url, section.bucket, token_env=section.token_env)
    assert settings.token() == ("secret" if name else "")


def test_a_run_of_a_stranger_that_goes_on_sends_no_other_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is no file that was checked: the name is looked at where the variable is read, too."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    section = Experiment.model_validate(
        {"influxdb": {"url": "https://influx.example", "token_env": "AWS_SECRET_ACCESS_KEY"}}
    ).influxdb
    with pytest.raises(ConfigError, match=r"influxdb\.token_env: expected"):
        InfluxSettings(section.url, section.bucket, token_env=section.token_env).token()


def test_a_token_file_is_beside_the_experiment_or_called_as_one_of_an_influxdb(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "of-a-stranger"
    for path in (home, folder / "in"):
        path.mkdir(parents=True)
    for path in (home / ".vault-token", home / "influx-write", folder / "in" / "t"):
        path.write_text("secret")
    (folder / "link").symlink_to(home / ".vault-token")
    for named in (home / ".vault-token", "../home/.vault-token", "link"):
        with pytest.raises(ConfigError) as caught:
            load_experiment(written(folder, f'token_file = "{named}"'))
        assert "influxdb.token_file: expected a file in the experiment file's folder" in str(caught.value)
    for named in (home / "influx-write", "in/t"):
        load_experiment(written(folder, f'token_file = "{named}"'))
    load_experiment(written(folder, ""), [f'influxdb.token_file="{home / ".vault-token"}"'])


@pytest.mark.parametrize(
    ("url", "note"),
    [
        ("http://influx.lan:8086", "go to influx.lan over plain HTTP"),
        ("https://influx.lan", "go to influx.lan"),
        ("http://10.0.0.7:8086", "go to 10.0.0.7 over plain HTTP"),
        ("http://localhost:8086", ""),
        ("http://127.0.0.1:8086", ""),
        ("http://[::1]:8086", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_where_records_and_a_token_go_is_said(url: str, note: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFLUX_TOKEN", "secret")
    told = influx_note(Experiment.model_validate({"influxdb": {"url": url}}).influxdb)
    assert told.partition(", where")[0] == (
        note and f"influxdb: records and the token of $INFLUX_TOKEN {note}"
    )
    monkeypatch.delenv("INFLUX_TOKEN")
    assert "token" not in influx_note(Experiment.model_validate({"influxdb": {"url": url}}).influxdb)


def test_a_report_says_that_its_token_is_readable_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INFLUX_READ_TOKEN", "secret")
    measured(tmp_path / "run")
    for url in ("http://report.invalid", "http://127.0.0.1:1"):
        source = open_records(ReadingsSource.INFLUXDB, url, "b")
        assert source is not None
        for _ in range(2):
            with RunFolder.open(tmp_path / "run") as folder, pytest.raises(LinkError):
                source(folder).__enter__()
    told = capsys.readouterr().err
    assert told.count("influxdb: the token goes to report.invalid over plain HTTP") == 1
    assert "127.0.0.1" not in told


def test_the_command_line_refuses_a_file_that_names_a_foreign_secret(tmp_path: Path) -> None:
    path = written(tmp_path, 'token_env = "AWS_SECRET_ACCESS_KEY"')
    words = [sys.executable, "-m", "roambench.cli.main", "run", str(path), "--fleet", "local"]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 2
    assert json.dumps("AWS_SECRET_ACCESS_KEY") in ran.stderr
