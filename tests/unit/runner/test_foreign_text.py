"""Text of boards, files and traces on a terminal: it is shown, and steers nothing."""

from __future__ import annotations

import json
import os
import pty
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from rich.table import Table

from forked_commands import Command, roambench
from roambench.contract.errors import ConfigError
from roambench.contract.events import EventKind, event_kind
from roambench.contract.orders import UploadOrder
from roambench.contract.printable import for_terminal
from roambench.fleet.answers import answer_from
from roambench.rounds.records import FleetEvent
from roambench.runner.agents.watch import Watch
from roambench.runner.screen import print_json, say, screen
from roambench.runs.folder import RunFolder
from roambench.wire.v1 import control_pb2 as wire
from samples import sampled
from small_runs import measured
from tiny_experiment import TINY

pytestmark = pytest.mark.lengthy

#: Clears the screen, sets its title, rings, goes back in the line, sets a colour by a C1 character, turns the
#: direction of writing, breaks the line, and has rich's markup.
PLANTED = "\x1b[2J\x1b]0;t\x07\r\x9b31m\u202e\u2028\x7f[red]x[/red][link=file:///etc]y[/link]:boom:"
STEERING = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: What a command itself sends to a terminal: styles; for a line of progress the cursor hides, goes up
#: and clears the line.
STYLES = re.compile("\x1b\\[[0-9;]*m|\r?\x1b\\[(\\?25[hl]|2K|[0-9]+A)")


def on_a_terminal(*words: str, cwd: Path) -> str:
    """All that a command prints on a terminal, but for the styles."""
    ours, its = pty.openpty()
    process = Command(words, cwd, its, Path(os.ttyname(its)))
    os.close(its)
    said = b""
    try:
        while piece := os.read(ours, 65536):
            said += piece
    except OSError:  # a terminal whose other end is closed
        pass
    process.wait()
    os.close(ours)
    return STYLES.sub("", said.decode().replace("\r\n", "\n"))


def assert_harmless(said: str) -> None:
    assert not STEERING.search(said), said
    assert "\r" not in said, said


def test_a_mistake_in_a_file_is_told_without_what_the_file_would_do(tmp_path: Path) -> None:
    text = json.dumps(PLANTED).replace("\\u2028", "\\u2028")
    (tmp_path / "x.toml").write_text(f"{text} = 1\nname = {text}\n[learning]\ntask = {text}\n")
    (tmp_path / "bench.toml").write_text(f"[controller]\naddress = {text}\n{text} = 2\n")
    for words in (("run", "x.toml", "--fleet", "rehearsal"), ("fleet", "list", "bench.toml")):
        said = on_a_terminal(*words, cwd=tmp_path)
        assert "expected keys of at most 200 printable characters" in " ".join(said.split())
        assert_harmless(said)
    with pytest.raises(ConfigError) as caught:
        raise ConfigError([f"a: {PLANTED}"])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "command", sampled(["run", "fleet list"], ["run", "report", "trace show", "fleet list", "sweep"])
)
def test_a_file_s_name_steers_nothing(command: str, tmp_path: Path) -> None:
    name = PLANTED.replace("/", "")
    (tmp_path / name).write_text("no = [")
    said = on_a_terminal(*command.split(), name, cwd=tmp_path)
    assert said.strip()
    assert_harmless(said)


def test_a_board_s_words_in_a_run_are_shown_and_steer_nothing(tmp_path: Path) -> None:
    """Also those that an older version kept as they were."""
    run = tmp_path / "run"
    measured(run)
    with RunFolder.open(run, write=True) as folder:
        folder.journal.append(FleetEvent(0, 0, "pi-01", EventKind.STORE_REFUSES, PLANTED))
    said = on_a_terminal("report", "run", "--full", cwd=tmp_path)
    assert "[red]x" in said
    assert_harmless(said)
    told = roambench("report", "run", "--full", "--json", cwd=tmp_path).stdout
    assert_harmless(told)
    json.loads(told)


def test_a_device_of_a_trace_is_called_as_it_is_and_steers_nothing(tmp_path: Path) -> None:
    names = [f"{n}{PLANTED.replace(chr(13), '')}" for n in range(3)]
    rows = [f'"{name}",{time_s},{x},{x}' for name in names for time_s, x in ((0, 10), (3600, 20), (7200, 30))]
    (tmp_path / "t.csv").write_text("\n".join(["device,time,x,y", *rows, "a\x1b[2J,b\x1b[2J,c,d", ""]))
    columns = "device=device,time=time,x=x,y=y"
    said = on_a_terminal(
        *("trace", "import", "csv", "t.csv", "-o", "t.parquet", "--steps", "2", "--columns", columns),
        cwd=tmp_path,
    )
    assert_harmless(said)
    said += on_a_terminal("trace", "show", "t.parquet", "--step", "0", cwd=tmp_path)
    assert_harmless(said)
    (tmp_path / "x.toml").write_text(TINY)
    sizes = ("--set", "fleet.aps=0", "--set", "fleet.agents=0")
    words = ("run", "x.toml", "--fleet", "rehearsal", "--trace", "t.parquet", *sizes, "-v")
    assert_harmless(on_a_terminal(*words, cwd=tmp_path))


@contextmanager
def a_store_that_answers(body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_influxdb_s_answer_steers_nothing(tmp_path: Path) -> None:
    measured(tmp_path / "run")
    for body in (PLANTED.encode(), json.dumps({"error": PLANTED}).encode()):
        with a_store_that_answers(body) as url:
            words = ("report", "run", "--readings", "influxdb", "--influx-url", url, "--influx-db", "b")
            said = on_a_terminal(*words, cwd=tmp_path)
        assert "500" in said
        assert_harmless(said)


def test_markup_is_text_and_json_is_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    console = screen()
    say(console, PLANTED)
    console.print(PLANTED, f"[bold]{PLANTED}[/]")
    table = Table(title=PLANTED)
    table.add_column(PLANTED)
    table.add_row(PLANTED)
    console.print(table)
    said = capsys.readouterr().out
    assert_harmless(said)
    assert said.count("[red]x[/red][link=file:///etc]y[/link]") == 6
    print_json({PLANTED: [PLANTED]})
    assert json.loads(capsys.readouterr().out) == {PLANTED: [PLANTED]}
    assert json.loads(for_terminal(json.dumps([PLANTED], ensure_ascii=False))) == [PLANTED]


def test_lines_letters_and_joined_signs_stay() -> None:
    text = "größer\t日本\nשלום 👩\u200d🔬\r\nend"
    assert for_terminal(text) == text
    assert for_terminal("a\rb\x1b[2J\u202e") == "a\\u000db\\u001b[2J\\u202e"


def test_a_board_s_words_are_one_line_before_they_are_kept(tmp_path: Path) -> None:
    measured(tmp_path / "run")
    with RunFolder.open(tmp_path / "run", write=True) as folder:
        watch = Watch(folder)
        watch.observe(0, "pi-01", event_kind(PLANTED), f"a\n{PLANTED}")
        (kept,) = folder.read_log().only(FleetEvent)
    assert kept.kind.isprintable()
    assert kept.detail.isprintable()
    order = UploadOrder("o", 0, 0, 0, "t")
    answer = answer_from(wire.Answer(status=wire.Answer.FAILED, reason=PLANTED), order, None)
    assert answer.reason.isprintable()
