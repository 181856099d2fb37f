"""The server as `roambench watch` starts it: pages, stream, figures, and whom it answers."""

from __future__ import annotations

import http.client
import json
import shlex
import signal
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from forked_commands import roambench, started
from roambench.live.metrics import Family
from roambench.rounds.records import StepOpened
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from small_runs import folder_of, measured, simulated, swept
from watching import Watching, watching

pytestmark = pytest.mark.lengthy


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    measured(path / "demo-mohawk")
    simulated(path / "demo-virtual")
    with RunFolder.open(path / "demo-mohawk", write=True) as folder:
        folder.update(created_utc="2099-01-01T00:00:00+00:00")
    return path


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Watching]:
    with watching(runs) as found:
        yield found


def test_pages_and_their_files_come_from_this_server_under_a_policy(server: Watching) -> None:
    for path in ("/", "/runs", "/?run=demo-virtual"):
        answer, text = server.get(path)
        assert answer.status == 200
        assert "<script>" not in text
        assert "http://" not in text.replace(server.address, "")
        policy = answer.headers["content-security-policy"]
        assert policy.startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
        )
        assert "unsafe" not in policy
    for name in ("page.css", "look.css", "live.css", "live.js", "charts.js", "runs.js"):
        answer, text = server.get(f"/files/{name}")
        assert answer.status == 200
        assert text
        assert "http://" not in text
        assert "innerHTML" not in text
    for path in ("/files/../server.py", "/files/%2e%2e%2fserver.py", "/files/live.html", "/elsewhere"):
        assert server.get(path)[0].status == 404


def test_the_stream_begins_with_the_newest_run_whole(server: Watching) -> None:
    with server.stream() as messages:
        whole = next(messages)
    assert whole["whole"] is True
    assert whole["name"] == "demo-mohawk"
    assert whole["now"]["joules"] == pytest.approx(124.0)
    with server.stream("demo-virtual") as messages:
        assert next(messages)["head"]["basis"] == "modelled"
    assert server.get("/stream?run=../demo-mohawk")[0].status == 404


def test_a_browser_gets_the_stream_zipped_and_reads_each_message_at_once(server: Watching) -> None:
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    with closing(link):
        link.request("GET", "/stream?run=demo-virtual", headers={"Accept-Encoding": "br, gzip"})
        answer = link.getresponse()
        assert answer.headers["content-encoding"] == "gzip"
        unpacker, text = zlib.decompressobj(16 + zlib.MAX_WBITS), b""
        while b"data: " not in text or not text.endswith(b"\n\n"):
            text += unpacker.decompress(answer.read1())
        assert json.loads(text.partition(b"data: ")[2])["name"] == "demo-virtual"


def test_another_programs_parser_reads_the_figures(server: Watching) -> None:
    answer, text = server.get("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (energy,) = families["roambench_energy_joules"].samples
    assert energy.name == "roambench_energy_joules_total"
    assert energy.labels == {"run": "demo-mohawk", "basis": "measured"}
    assert energy.value == pytest.approx(124.0)
    assert families["roambench_board_power_watts"].unit == "watts"
    (watts,) = families["roambench_board_power_watts"].samples
    assert (watts.labels["device"], watts.value) == ("pi-01", 2.0)
    _, text = server.get("/metrics?run=demo-virtual")
    virtual = {family.name: family for family in text_string_to_metric_families(text)}
    outcomes = {s.labels["outcome"]: s.value for s in virtual["roambench_local_updates"].samples}
    assert outcomes == {"pending": 0.0, "aggregated": 1.0, "wasted": 0.0, "failed": 0.0}
    assert "roambench_board_power_watts" not in virtual
    assert server.get("/metrics?run=nowhere")[0].status == 404


def test_the_report_of_a_start_is_served_where_it_cannot_reach_this_server(
    server: Watching, runs: Path
) -> None:
    assert server.get("/report?run=demo-mohawk")[0].status == 404
    assert server.get("/report?run=../demo-mohawk")[0].status == 404
    assert not any(run["report"] for run in json.loads(server.get("/runs.json")[1]))
    (runs / "report.html").write_text("<!doctype html><p>finding</p>")
    answer, text = server.get("/report?run=demo-mohawk")
    assert text == "<!doctype html><p>finding</p>"
    assert answer.headers["content-security-policy"] == "sandbox allow-scripts allow-downloads"
    assert all(run["report"] for run in json.loads(server.get("/runs.json")[1]))
    (runs / "report.html").unlink()


def test_all_runs_have_their_figures_are_filtered_and_compared(server: Watching) -> None:
    columns = [column["name"] for column in json.loads(server.get("/columns.json")[1])]
    assert columns == ["name", "when", "system", "fleet", "state", "accuracy", "joules", "wasted"]
    where = "/runs.json?where=accuracy+%3E+70%25+and+fleet+%3D+simulated"
    found = json.loads(server.get(where)[1])
    while not found:  # figures are read after the list is shown; a test's time limit ends the wait
        time.sleep(0.1)
        found = json.loads(server.get(where)[1])
    (virtual,) = found
    assert virtual["name"] == "demo-virtual"
    assert virtual["cells"]["accuracy"] == [0.75, "75.0 %"]
    answer, text = server.get("/runs.json?where=acuracy+%3E+1")
    assert answer.status == 400
    assert text.startswith("character 1 (got acuracy): no column acuracy, did you mean accuracy?")
    compared = json.loads(server.get("/figures.json?run=demo-virtual&run=demo-mohawk&run=../secret")[1])
    assert compared["runs"] == ["demo-virtual", "demo-mohawk"]
    assert ["final accuracy", "75.0 %", "50.0 %"] in compared["rows"]
    program, word, *paths = shlex.split(compared["command"])
    assert (program, word) == ("roambench", "report")
    assert [(Path(path) / "run.json").is_file() for path in paths] == [True, True]


def test_a_sweeps_runs_are_called_by_what_varies(tmp_path: Path) -> None:
    swept(tmp_path / "grid")
    with watching(tmp_path) as server:
        listed = json.loads(server.get("/runs.json")[1])
        names = {run["name"]: run["cells"]["name"] for run in listed}
        assert names["grid/points/m-0.1-2/runs/mohawk"] == ["mohawk alpha=0.1 seed=2"] * 2
        query = "&".join(f"run={name}" for name in sorted(names)[:2])
        compared = json.loads(server.get(f"/figures.json?{query}")[1])
    assert compared["runs"] == ["mohawk alpha=0.1 seed=1", "mohawk alpha=0.1 seed=2"]


def test_names_that_boards_could_choose_stay_inside_their_label() -> None:
    name = 'pi"} 1\n# EOF\\'
    family = Family("roambench_x", "gauge", "", 'help\n"', (({"device": name}, 1.5),))
    text = "\n".join([*family.lines({}), "# EOF", ""])
    (read,) = text_string_to_metric_families(text)
    assert [(sample.labels, sample.value) for sample in read.samples] == [({"device": name}, 1.5)]


def test_on_loopback_it_answers_to_this_machines_own_names_only(server: Watching) -> None:
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}", "localhost", f"[::1]:{server.port}"):
        assert server.get("/runs.json", Host=host)[0].status == 200, host
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", ""):
        assert server.get("/runs.json", Host=host)[0].status in (400, 421), host


def test_elsewhere_it_asks_for_the_token(runs: Path) -> None:
    with watching(runs, "--host", "0.0.0.0") as server:
        _, _, token = server.address.partition("?token=")
        assert len(token) >= 24
        for path in ("/", "/stream", "/metrics", "/files/live.js", "/?token=wrong", "/?token=%ff"):
            assert server.get(path)[0].status == 403, path
        answer, _ = server.get(f"/?run=demo-mohawk&token={token}")
        assert answer.status == 303
        assert answer.headers["location"] == "/?run=demo-mohawk"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert server.get("/runs.json", Cookie=cookie.partition(";")[0])[0].status == 200
        assert server.get("/metrics", Authorization=f"Bearer {token}")[0].status == 200
        assert server.get(f"/metrics?token={token}")[0].status == 200


def test_a_run_that_begins_meanwhile_is_shown_and_its_end_is_told(tmp_path: Path) -> None:
    measured(tmp_path / "old")
    with watching(tmp_path) as server, server.stream() as messages:
        assert next(messages)["name"] == "old"
        folder = folder_of(tmp_path / "new", "local", [StepOpened(0, (0,), (0,), (5.0,))])
        whole = next(message for message in messages if message.get("whole"))
        assert whole["name"] == "new"
        assert whole["head"]["state"] == "running"
        folder.close(RunState.FINISHED)
        head = next(message["head"] for message in messages if "head" in message)
        assert head["state"] == "finished"


def test_it_ends_at_once_while_a_page_is_open(runs: Path) -> None:
    with watching(runs) as server, server.stream() as messages:
        next(messages)
        server.process.send_signal(signal.SIGTERM)
        _, err = server.process.communicate(timeout=30)
        assert err == ""
        assert server.process.returncode == 143


def test_what_is_no_run_is_one_sentence_and_no_traceback(tmp_path: Path) -> None:
    done = roambench("watch", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"roambench: {tmp_path}: no run in it (nothing there has a run.json)\n"


def test_a_port_that_is_taken_is_named(server: Watching, runs: Path) -> None:
    done = roambench("watch", str(runs), "--port", str(server.port), cwd=runs)
    assert done.returncode == 2
    assert done.stderr == (
        f"roambench: --port {server.port} on 127.0.0.1: Address already in use; --port 0 takes a free one\n"
    )


TRYOUT = """
name = "tryout"
systems = ["mohawk"]
trace = { parameters = { devices = 12, steps = 12 }, steps = 6 }
fleet = { agents = 4, aps = 3 }
learning = { model = "mlp", images_per_device = 40 }
"""


@pytest.mark.timeout(600)
def test_run_watch_serves_the_page_of_its_run_and_ends_with_it(tmp_path: Path) -> None:
    measured(tmp_path / "runs" / "older")
    (tmp_path / "tryout.toml").write_text(TRYOUT)
    with started("run", "tryout.toml", "--fleet", "simulated", "--watch", cwd=tmp_path) as (running, out, _):
        line = next(line for line in out if "http://" in line)
        served = Watching(running, line.rpartition(" ")[2].strip())
        with served.stream() as messages:
            first = next(messages)
            assert first.get("failed", "").startswith("no run yet") or first["head"]["system"] == "mohawk"
            heads = [message["head"] for message in (first, *messages) if "head" in message]
        assert heads[-1]["run"].startswith("tryout-mohawk")
        assert heads[-1]["state"] == "finished"
        assert running.wait(60) == 0
    with pytest.raises(ConnectionRefusedError):
        served.get("/")


@pytest.mark.timeout(600)
def test_the_page_of_a_run_that_is_killed_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "tryout.toml").write_text(TRYOUT)
    with started("run", "tryout.toml", "--fleet", "simulated", "--watch", cwd=tmp_path) as (running, out, _):
        line = next(line for line in out if "http://" in line)
        served = Watching(running, line.rpartition(" ")[2].strip())
        assert served.get("/")[0].status == 200
        running.kill()
    deadline_s = time.monotonic() + 60
    while True:
        try:
            served.get("/")
        except (ConnectionError, http.client.HTTPException):
            break
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
