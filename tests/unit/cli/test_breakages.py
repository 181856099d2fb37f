"""What people get wrong: one clear error that names it, no traceback, and the documented exit code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from roambench.cli.main import main
from tiny_experiment import SWEEP, TINY

RUN = "finished"  # of its own: what else is typed makes a newer latest one

#: What is typed, the exit code, and what the error says.
BROKEN = [
    # the experiment file
    (
        "run wrongkey.toml",
        2,
        "learning.learnin_rate: unknown key, did you mean learning_rate?",
    ),
    ("run two.toml", 2, 'two.toml:2: learning.batch_size: expected an integer ≥ 1, got "eight"'),
    ("run two.toml", 2, 'two.toml:1: seed: expected an integer ≥ 0, got "x"'),
    ("run nothere.toml", 2, "nothere.toml: cannot be read: No such file or directory"),
    ("run system.toml", 2, 'got "mohak", did you mean mohawk?'),
    ("run syntax.toml", 2, "syntax.toml: not TOML: line 1, column 10: expected the quotes that end"),
    ("run s.toml", 2, "s.toml: a sweep file, not an experiment: roambench sweep s.toml"),
    ("sweep tiny.toml", 2, "tiny.toml: an experiment file, not a sweep: roambench run tiny.toml"),
    ("ab tiny.toml nothere.toml", 2, "nothere.toml: cannot be read"),
    ("data show nothere.toml", 2, "nothere.toml: cannot be read"),
    ("overhead nothere.toml", 2, "nothere.toml: cannot be read"),
    # words and options
    ("rnu tiny.toml", 2, "No such command 'rnu'. Did you mean 'run'?"),
    ("run tiny.toml --flet local", 2, "No such option: --flet"),
    (
        "run tiny.toml --fleet localhost",
        2,
        "--fleet: expected one of local, simulated, rehearsal",
    ),
    ("run tiny.toml --fleet bench:nothere.toml", 2, "nothere.toml: cannot be read"),
    ("run tiny.toml --fleet rehearsal --agents 5000", 2, "expected at most 6, the devices of the trace"),
    ("run tiny.toml --agents -3", 2, "--agents: fleet.agents: expected an integer ≥ 0, got -3"),
    ("run tiny.toml --set seed", 2, "--set seed: expected key=value, for example learning.batch_size=16"),
    ("run tiny.toml --set learning.lr=0.1", 2, "learning.lr: unknown key, did you mean learning_rate?"),
    ("run tiny.toml --set seed=abc", 2, '--set: seed: expected an integer ≥ 0, got "abc"'),
    ("sweep s.toml --jobs 0", 2, "'--jobs': Input should be greater than or equal to 1"),
    ("list algos", 2, "'algos' is not one of 'algorithms'"),
    ("calibrate tiny.toml -o m.toml --rates abc", 2, "--rates: expected numbers with commas between them"),
    ("reproduce nope", 2, "experiments/reproduction.toml: no such file"),
    # run folders
    ("report nothere", 1, "nothere: no such folder; expected a run, for example runs/mohawk"),
    ("report empty", 1, "empty: not a run folder (it has no run.json)"),
    ("report tiny.toml", 1, "tiny.toml: not a run folder (it has no run.json)"),
    ("report badjson", 1, "badjson/run.json: not JSON (Expecting value: line 1 column 7 (char 6))"),
    ("report noevents", 1, "noevents/events.sqlite: no such file"),
    ("report damaged", 1, "damaged/events.sqlite: "),
    (
        "report other",
        1,
        "other/run.json: format: expected 1, got 99: another version of roambench",
    ),
    (
        f"report {RUN} -o empty",
        1,
        "empty: cannot be written: a folder, expected a file, for example",
    ),
    (f"report {RUN} -o /proc/none/x.html", 1, "/proc/none/x.html: cannot be written: No such file"),
    (
        "run tiny.toml --fleet rehearsal --runs-dir /proc/none",
        1,
        "/proc/none/tiny: No such file",
    ),
    (f"compare {RUN}", 1, f"{RUN}: a rehearsal moves no bytes and has no meters"),
    (f"results {RUN}", 1, f"{RUN}: a run, not a sweep: roambench report {RUN}"),
    (
        "results empty",
        1,
        "No such file or directory; is empty a sweep's folder?",
    ),
    (f"pause {RUN}", 1, "the run is finished: nothing to pause or to resume"),
    ("resume nothere", 1, "nothere: no such folder; expected a run, or a folder of runs"),
    ("watch nothere", 1, "nothere: no such folder; expected a run, a group of runs, or a folder of runs"),
    ("campaign nothere", 1, "nothere: no log of a campaign"),
    ("export tensorboard nothere -o x", 1, "nothere: no such folder"),
    (
        f"report {RUN} --readings influxdb --influx-url http://127.0.0.1:1 --influx-db x",
        1,
        "InfluxDB at http://127.0.0.1:1 (database 'x') cannot be reached",
    ),
    # data, traces, meters, benches
    ('run tiny.toml --set learning.dataset="mnist"', 2, "train-images-idx3-ubyte[.gz]: missing MNIST file"),
    ("trace import checkins bad.csv -o t.parquet", 2, "bad.csv:1: cannot tell which column is device, time"),
    ("trace import nope bad.csv -o t.parquet", 2, "reader: expected one of bonnmotion"),
    ("trace import --detect tiny.toml", 2, "tiny.toml: no known format; see `roambench list readers`"),
    ("trace show nothere.parquet", 2, "nothere.parquet: no such trace file"),
    ("meter read /dev/nothere --seconds 1", 1, "meter /dev/nothere: cannot be opened (No such file"),
    ("meter read x --driver nope", 2, "unknown meter 'nope': expected one of hwmon"),
    ("fleet list bench.toml", 2, "bench.toml: hosts: expected tables [[hosts]], at least one"),
    ("fleet status nothere.toml", 2, "nothere.toml: cannot be read"),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files and runs, most of them broken."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "empty").mkdir()
    files = {
        "tiny.toml": TINY,
        "s.toml": SWEEP,
        "wrongkey.toml": "learning = { learnin_rate = 0.1 }\n",
        "two.toml": 'seed = "x"\nlearning = { batch_size = "eight" }\n',
        "system.toml": 'systems = ["mohak"]\n',
        "syntax.toml": 'name = "a\nseed = 3\n',
        "bench.toml": '[controller]\naddress = "10.0.0.1"\n[[host]]\nname = "pi-1"\n',
        "bad.csv": "a;b\n1;2\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(SystemExit):
            main(["run", "tiny.toml", "--fleet", "rehearsal", "-q"])
        for name in (RUN, "badjson", "noevents", "damaged", "other"):
            shutil.copytree("runs/tiny/latest/mohawk", name)
        Path("badjson/run.json").write_text('{"x": ')
        Path("noevents/events.sqlite").unlink()
        whole = Path("damaged/events.sqlite").read_bytes()
        Path("damaged/events.sqlite").write_bytes(whole[:100] + b"\xff" * 8000 + whole[8100:])
        text = Path("other/run.json").read_text()
        Path("other/run.json").write_text(text.replace('"format": 1', '"format": 99'))
    return folder


@pytest.mark.usefixtures("workers_of_one_server")
@pytest.mark.parametrize(("typed", "code", "says"), BROKEN)
def test_what_is_wrong_is_said_in_a_line(
    broken: Path,
    typed: str,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(broken)
    monkeypatch.setenv("ROAMBENCH_DATA", str(tmp_path))  # nobody's data sets
    with pytest.raises(SystemExit) as ended:
        main(typed.split())
    printed = capsys.readouterr()
    assert ended.value.code == code, printed.err
    assert says in re.sub(r"[\s│]+", " ", printed.err).replace("\\n", "\\n")
    assert "Traceback" not in printed.err
    assert "a bug, please report it" not in printed.err
    lines = printed.err.splitlines()
    assert all(line.startswith("roambench: ") for line in lines) or lines[0].startswith("Usage: ")


def test_all_devices_are_said_to_be_meant_by_none(
    broken: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(broken)
    with pytest.raises(SystemExit) as ended:
        main(["run", "tiny.toml", "--fleet", "rehearsal", "--agents", "0", "--runs-dir", "other-runs"])
    assert not ended.value.code
    assert "fleet.agents = 0: all 6 devices of the trace" in capsys.readouterr().out


def test_a_rehearsal_needs_no_data(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(broken)
    words = ["run", "tiny.toml", "--fleet", "rehearsal", "--runs-dir", "more-runs", "-q"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--set", 'learning.dataset="cifar10"'])
    assert not ended.value.code
