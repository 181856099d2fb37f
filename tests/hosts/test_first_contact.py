"""`fleet verify --cut-power` on two hosts of their own: one has a slow meter and cannot be cut.

By hand on a set that is up and provisioned: `boot.py up --set N late slow`, and $ROAMBENCH_HOSTS_SET=N.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hosts.lab.bench_hosts import BenchHosts, running_hosts, running_sets
from hosts.lab.cli import roambench
from roambench.extras.verify.collecting import Pace, collect
from roambench.extras.verify.finding import Held
from roambench.extras.verify.judging import judged
from roambench.extras.verify.kit import Kit, read_kit, write_kit
from roambench.provision.inventory.load import load_bench

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAMES = ("late", "slow")
PACE = Pace(wave_s=30.0, rest_s=45.0, transfer_s=3.0, transfers=1)
PORT = "opening the meter's port leaves the board its power"
OFF = "a board that is switched off is off"
LOGS = "logs of the boot before are kept"


@pytest.fixture
def hosts() -> Iterator[BenchHosts]:
    if number := os.environ.get("ROAMBENCH_HOSTS_SET"):
        yield running_sets()[int(number)]
        return
    with running_hosts(NAMES) as fresh:
        for words in (["wheelhouse"], ["provision"]):
            said = roambench("fleet", *words, fresh.bench, timeout_s=900)
            assert said.code == 0, said
        yield fresh


def test_a_slow_meter_and_a_board_that_lives_on_are_found(hosts: BenchHosts, tmp_path: Path) -> None:
    """Power that comes back through USB is, from outside, a board that answers after its switch is off."""
    text = hosts.bench.read_text()
    before, name, after = text.partition('name = "slow"\n')
    file = hosts.bench.with_name("fed-back.toml")
    file.write_text(f'{before}{name}power = {{ on = "true", off = "true" }}\n{after}')
    bench = load_bench(file)

    def kit_of(name: str) -> Kit:
        (host,) = bench.only([name])
        return collect(bench, host, PACE, lambda text: None, may_cut=True)

    with ThreadPoolExecutor(2) as pool:
        kits = dict(zip(NAMES, pool.map(kit_of, NAMES), strict=True))
    found = {
        name: {one.assumption: (one.held, one.found) for one in judged(kit)} for name, kit in kits.items()
    }
    assert {name: found[name][OFF][0] for name in NAMES} == {"late": Held.HOLDS, "slow": Held.FAILS}, found
    assert {name: found[name]["a line every 1 s"][0] for name in NAMES} == {
        "late": Held.HOLDS,
        "slow": Held.FAILS,
    }, found
    assert found["late"][LOGS][0] is Held.HOLDS, found
    assert [found[name][PORT][0] for name in NAMES] == [Held.HOLDS] * 2, found
    for name, kit in kits.items():
        write_kit(tmp_path / "kit.zip", kit, [])
        assert read_kit(tmp_path / "kit.zip").transcript.startswith("# meter: smartpower2\n"), found
        with zipfile.ZipFile(tmp_path / "kit.zip") as archive:
            said = archive.read("kit.json").decode()
        (host,) = bench.only([name])
        for word in (host.address, str(hosts.key), bench.controller.address, f'"{name}"'):
            assert word not in said
