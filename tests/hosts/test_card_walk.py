"""docs/start/from-card-to-report.md, typed on five pristine hosts by somebody who has nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from hosts.card_walk import BENCH, ROOT, card_page, card_page_lines
from hosts.lab import fresh_card
from hosts.lab.bench_hosts import BenchHosts, running_hosts, running_sets
from hosts.lab.command import do
from hosts.lab.container import METER_DEVICE
from hosts.lab.footprint import footprint
from hosts.lab.needed import need_tools
from hosts.lab.network import INTERFACE, Network
from hosts.lab.stranger import Stranger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

FIVE: Final = (
    "pi-01:raspios",
    "pi-02:debian",
    "pi-03:hardened",
    "pi-04:raspios+small-home+missing-locale",
    "pi-05:raspios+slow-link",
)
_PATIENCE_S: Final = 2400.0


@pytest.fixture(scope="module")
def booted() -> Iterator[BenchHosts]:
    """Hosts of FIVE; with $ROAMBENCH_HOSTS_SET those of that set, if it was made with these words."""
    need_tools()
    kept = running_sets().get(int(os.environ.get("ROAMBENCH_HOSTS_SET", "-1")))
    if kept and kept.names == tuple(word.partition(":")[0] for word in FIVE):
        yield kept
        return
    with running_hosts(FIVE) as hosts:
        yield hosts


@pytest.fixture
def five(booted: BenchHosts) -> BenchHosts:
    """Freshly flashed, whatever was done to them before."""
    for name in booted.names:
        booted.flash(name)
    return booted


@pytest.fixture
def network(five: BenchHosts) -> Network:
    """Theirs. Cables have MACs of Raspberry Pi's, as boards have."""
    network = Network(int(five.folder.name))
    for index, name in enumerate(five.names):
        address = f"b8:27:eb:00:05:{index:02x}"
        do("ip", "-n", network.namespace(index), "link", "set", INTERFACE, "address", address)
        five.inside(name, "systemctl try-restart avahi-daemon || true")  # not every flavour has one
    do("ip", "neigh", "flush", "dev", network.bridge)
    return network


def described(example: str, five: BenchHosts, network: Network) -> str:
    """The example filled in: addresses, users, ports and meters of five boards instead of 36, no spare."""
    state = five.state()
    head, _, _ = example.partition("[[hosts]]")
    for line, instead in {
        'address = "10.36.0.1" ': f'address = "{network.machine}" ',
        'listen_host = "10.36.0.1"': f'listen_host = "{network.machine}"',
        'interface = "wlan0"': f'interface = "{INTERFACE}"',
        "# [defaults.card]": "[defaults.card]",
        '# subnet = "10.36.0.0/24"': f'subnet = "{re.sub("[0-9]+$", "0/24", network.machine)}"',
        '# gateway = "10.36.0.1"': f'gateway = "{network.machine}"',
        '# timezone = "Europe/Zurich"': 'timezone = "Europe/Zurich"',
        'driver = "smartpower2"': f'driver = "smartpower2"\nport = "{METER_DEVICE}"\nemulated = true',
    }.items():
        assert head.count(line) == 1, line
        head = head.replace(line, instead)
    users = [there["user"] for there in state.values()]
    ports = [there["port"] for there in state.values()]
    hops = [there["hop"] for there in state.values()]
    first, last = network.address(0), network.address(len(state) - 1).rpartition(".")[2]
    prefix, _, number = first.rpartition(".")
    return head + (
        f'[[hosts]]\nname = "pi-[01:{len(state):02d}]"\naddress = "{prefix}.[{number}:{last}]"\n'
        f"ssh_user = {users}\nssh_port = {ports}\n\n[hosts.meter]\nwifi_hop = {hops}\n"
    )


def left_by(page: str) -> tuple[str, ...]:
    """The places that the page says provisioning writes to."""
    table = page.partition("### What provisioning leaves on a board")[2].partition("\n## ")[0]
    return tuple(re.findall(r"`(/[^`]+)`", table))


def undocumented(changed: Iterable[str]) -> list[str]:
    """Of a footprint's lines those that are of no such place, and not of the user roambench either."""
    places = "|".join(map(re.escape, left_by((ROOT / "docs/build.md").read_text())))
    documented = re.compile(
        rf"[dfl] .* ({places})(/.*)? |l .* ({places})(/.*)? \S+|[0-9a-f]{{64}}  ({places})(/.*)?"
        r"|roambench:.*|(dialout|video):.*|unit roambench-(agent|board)\.service .*"
    )
    return [line for line in changed if not documented.fullmatch(line)]


def test_the_page_leads_from_pristine_hosts_to_a_true_report_and_back(
    five: BenchHosts, network: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Every line works as it stands, but for the network's number and the key's name; what was measured is
    what was drawn, and nothing is on the boards but what the page says, and nothing at last."""
    stranger = Stranger(tmp_path / "anna", five.key)
    before = {name: footprint(five, name) for name in five.names}
    try:
        _walk(stranger, five, network)
        runs = sorted(path.parent for path in stranger.checkout.glob("runs/*/[0-9]*/*/run.json"))
        assert len(runs) == 2
        for run in runs:
            for name in five.names:
                shutil.copy(five.folder / "meters" / f"{name}.csv", run / "truth")
            _energy_is_true(stranger, run)
        for name in five.names:
            assert undocumented(sorted(footprint(five, name) ^ before[name])) == [], name
        _types(stranger, f"roambench fleet unprovision {BENCH} --yes")
        for name in five.names:
            assert sorted(footprint(five, name) ^ before[name]) == [], name
    finally:
        with capsys.disabled():
            print(f"\n{stranger.table()}")


def _types(stranger: Stranger, line: str) -> str:
    assert line.startswith("roambench ")
    typed = stranger.types(f".venv/bin/{line}", _PATIENCE_S)
    assert typed.code == 0, f"{line}: exit {typed.code}\n{typed.shown}"
    return typed.shown


def _walk(stranger: Stranger, five: BenchHosts, network: Network) -> None:
    (discover,) = re.findall(r"`(roambench fleet discover\s[^`]*)`", card_page())
    subnet = re.sub(r"\d+$", "0/24", network.machine)
    _types(stranger, re.sub(r"\s+", " ", discover).replace("192.168.50.0/24", subnet))
    draft = (stranger.checkout / BENCH).read_text()
    assert all(five.address(name) in draft for name in five.names), draft
    asked = [name for name in five.names if name != "pi-03"]  # whose SSH server is where only its owner knows
    assert all(f'"{name}"' in draft for name in asked), draft

    example = (stranger.checkout / "inventory/bench36.example.toml").read_text()
    (stranger.checkout / BENCH).write_text(described(example, five, network))
    boot = stranger.media / "anna" / "bootfs"
    boot.mkdir(parents=True)
    fresh_card.ship(boot)
    for line in card_page_lines("console", "sh"):
        _types(stranger, line)
    assert (boot / "firstrun.sh").exists()
    assert (stranger.checkout / "runs/bench.html").stat().st_size > 0


def _energy_is_true(stranger: Stranger, run: Path) -> None:
    """Every board's joules of the whole run, beside what its emulated meter's board drew."""
    shown = _types(stranger, f"roambench report {run.relative_to(stranger.checkout)} --json")
    report = json.loads(shown[shown.index("{") : shown.rindex("}") + 1])
    truth = report["runs"][0]["energy"]["truth"]
    assert (truth["boards"], truth["boards_within_2u"]) == (5, 5), truth


def test_a_tired_person_is_told_what_is_wrong_and_loses_nothing(
    five: BenchHosts, network: Network, tmp_path: Path
):
    """A wrong name, a wrong key, a locked one, a board that is off; two shells at once; Ctrl-C at the slow
    board, and the same line again: it goes on where it was."""
    anna = Stranger(tmp_path / "anna", five.key)
    file = anna.checkout / BENCH
    example = (anna.checkout / "inventory/bench36.example.toml").read_text()
    text = described(example, five, network)
    locked = anna.home / ".ssh" / "locked"
    shutil.copy(five.key, locked)
    do("ssh-keygen", "-q", "-p", "-P", "", "-N", "a long one", "-f", locked)

    def provision(words: str, code: int) -> str:
        typed = anna.types(f".venv/bin/roambench fleet provision {BENCH} {words}")
        assert typed.code == code, typed.shown
        return " ".join(typed.shown.split())

    file.write_text(text)
    assert "did you mean pi-01?" in provision("--only pi-1", 2)
    file.write_text(text.replace("~/.ssh/bench36", "~/.ssh/bench63"))
    assert "check ssh_key in the bench file" in provision("--only pi-01", 1)
    file.write_text(text.replace("~/.ssh/bench36", "~/.ssh/locked"))
    told = provision("--only pi-01", 1)
    assert "the SSH key has a passphrase, and no ssh-agent holds it" in told
    assert "ssh-add" in told
    file.write_text(text)
    five.off("pi-02")
    told = provision("--dry-run --only pi-01 --only pi-02", 1)
    five.on("pi-02")
    assert "is it powered, booted and on this network?" in told
    assert "1 to change, 0 unchanged, 1 failed" in told

    line = f".venv/bin/roambench fleet provision {BENCH} --only pi-05"
    first = anna.begins(line)
    had_mb = int(first.shows(r"pi-05  wheels: ([1-9]\d*) of \d+ MB", 240.0)[1])
    assert "used by anna@" in provision("--only pi-05", 1)
    first.ctrl_c()
    stopped = first.ended(30.0)
    assert stopped.code == 130, stopped.shown
    again = anna.begins(line)
    assert int(again.shows(r"pi-05  wheels: (\d+) of \d+ MB", 240.0)[1]) >= had_mb
    again.ctrl_c()
    assert again.ended(30.0).code == 130
    assert anna.types(f".venv/bin/roambench fleet unprovision {BENCH} --only pi-05 --yes").code == 0
