"""Mistakes in files that people write name the line of their key."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.api import run
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.provision.inventory.load import load_bench
from roambench.study.sweep.sweep_file import read_sweep
from roambench.written.lines import lines_of

_EVERY_KIND = '''
# [not.a.table]
a = """
b = 1
"" [c] """
"q.r" = 'x # = [y]'
[t] # k = 1
k.l = [
  "]", # }
  {m = 2024-01-01T08:00:00Z, n = {o = 1.5e3}},
]
[[rows]]
id = 1
[rows.inner]
p = '\\'
[[rows]]
id = 2
inner = {p = "\\"}"}
[t.u.v]
w = -0.5
'''


def test_every_kind_of_key_has_its_line() -> None:
    assert lines_of(_EVERY_KIND) == {
        **{"a": 3, "q.r": 6, "t": 7, "t.k": 8, "t.k.l": 8, "t.k.l[1]": 9, "t.k.l[2]": 10},
        **{"t.k.l[2].m": 10, "t.k.l[2].n": 10, "t.k.l[2].n.o": 10},
        **{"rows": 12, "rows[1]": 12, "rows[1].id": 13, "rows[1].inner": 14, "rows[1].inner.p": 15},
        **{"rows[2]": 16, "rows[2].id": 17, "rows[2].inner": 18, "rows[2].inner.p": 18},
        **{"t.u.v": 19, "t.u.v.w": 20},
    }


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("\n[fleet]\nagents = -1\n", "a.toml:3: fleet.agents: expected"),
        ("\ufeff\nfleet = {agents = -1}\n", "a.toml:2: fleet.agents: expected"),
        ("seed = 1\nlearning.batch_size = 0", "a.toml:2: learning.batch_size: expected"),
        ("seed = 1\r\nsede = 2\r\n", "a.toml:2: sede: unknown key"),
        ("[trace]\nsteps = 3\nfile = 'x.parquet'", "a.toml:3: trace.file: expected a trace file"),
        ('seed = 1\n[energy]\n\ncalibration_file = "\\u0000"', "a.toml:4: energy.calibration_file: expected"),
        ("seed = 1\n\n[energy.meters.m]\ngain = 2.0\nu_gain = 'x'", "a.toml:5: energy.meters.m.u_gain: exp"),
    ],
)
def test_a_mistake_in_an_experiment_names_its_line(tmp_path: Path, text: str, begins: str) -> None:
    (tmp_path / "a.toml").write_bytes(text.encode())
    with pytest.raises(ConfigError) as refused:
        load_experiment(tmp_path / "a.toml")
    assert any(problem.startswith(begins) for problem in refused.value.problems), refused.value.problems


def test_what_the_command_line_says_has_no_line(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seed = 1\n[fleet]\nagents = 2\n")
    with pytest.raises(ConfigError) as refused:
        load_experiment(tmp_path / "a.toml", ["fleet.agents=-1"], trace_file="none.parquet")
    assert [problem.partition(" expected")[0] for problem in refused.value.problems] == [
        "--set: fleet.agents:",
        "--trace: trace.file:",
    ]


def test_a_path_with_a_nul_is_a_mistake_also_where_no_file_said_it() -> None:
    for given in ({"energy": {"calibration_file": "\0"}}, {"influxdb": {"token_file": "a\0"}}):
        with pytest.raises(ConfigError, match="expected a text without NUL"):
            run(given)
    with pytest.raises(ConfigError, match=r"set: links\.model: expected a text without NUL"):
        run({}, set={"links.model": "\0"})


def test_a_mistake_in_a_bench_names_the_line_of_its_host(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(
        '[controller]\naddress = "10.0.0.1"\ncontrol_port = "x"\n'
        '[[hosts]]\nname = "pi-1"\naddress = "10.0.0.2"\nmeter.driver = "smartpwer2"\nmeter.port = "/dev/x"\n'
        '[[hosts]]\nname = "pi-[2:3]"\naddress = "10.0.0.[2:3]"\nmeter = {driver = "none"}\nssh_port = "y"\n'
        '[[hosts]]\nname = "pi-1"\naddress = "10.0.0.9"\nmeter = {driver = "none"}\n'
    )
    with pytest.raises(ConfigError) as refused:
        load_bench(tmp_path / "b.toml")
    assert [problem.partition(" expected")[0] for problem in refused.value.problems] == [
        "b.toml:3: controller.control_port:",
        "b.toml:13: hosts[2].ssh_port:",
        "b.toml:4: hosts: pi-1: meter.driver:",
        "b.toml:14: hosts: name:",
    ]


def test_a_mistake_in_a_sweep_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("fleet = 'x'\n[experiment]\nseed = 1\n[grid]\nlearning.alpha = []\n")
    with pytest.raises(ConfigError) as refused:
        read_sweep(tmp_path / "s.toml")
    assert [problem.partition(" expected")[0] for problem in refused.value.problems] == [
        "s.toml:1: fleet:",
        "s.toml:5: grid: learning.alpha:",
    ]
    (tmp_path / "s.toml").write_text("[experiment]\nseed = 1\n\nfleet.agents = -1\n")
    with pytest.raises(ConfigError, match=r"^s.toml:4: experiment: fleet.agents: expected"):
        load_experiment(read_sweep(tmp_path / "s.toml").experiment)
