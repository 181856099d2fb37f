"""A board's own power sensor: described in the bench file, made known to the kernel, set, and undone."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benches import bench_of
from host_facts import FRESH
from roambench.contract.errors import ConfigError
from roambench.provision import layout
from roambench.provision.bench import Bench
from roambench.provision.changes import removal
from roambench.provision.facts import FileFacts
from roambench.provision.step import HostStep, Skip
from roambench.provision.subjects import sensor as subject
from roambench.provision.subjects.meter import meter
from roambench.provision.subjects.sensor import rules, sensor, with_bus
from roambench.provision.subjects.settings import agent_settings
from roambench.provision.wanted import Identity, Wanted
from roambench.provision.wheels.agent_build import AgentBuild

HOSTS = """
[defaults.meter]
driver = "hwmon"
i2c = "ina226@1-0041"
shunt_uohm = 100000
update_ms = 35
site = "CPU rail"
serial = "A7"
[[hosts]]
name = "pi-01"
address = "10.0.0.1"
"""
CONFIG = "dtparam=audio=on\n[cm4]\notg_mode=1\n"


def wanted_of(bench: Bench, tmp_path: Path) -> Wanted:
    build = AgentBuild("code", tmp_path / "wheel", "0.1.0", None)  # type: ignore[arg-type]
    return Wanted(bench, bench.hosts[0], build, Identity())


def test_the_rules_make_the_chip_known_and_set_it_and_the_agents_port_has_it_all(
    tmp_path: Path,
) -> None:
    bench = bench_of(tmp_path, HOSTS)
    assert rules(bench.hosts[0].meter) == (
        'ACTION=="add", SUBSYSTEM=="i2c", KERNEL=="i2c-1", ATTR{new_device}="ina226 0x41"\n'
        'SUBSYSTEM=="hwmon", KERNELS=="1-0041", ATTR{update_interval}="35", ATTR{shunt_resistor}="100000"\n'
    )
    assert agent_settings(bench, bench.hosts[0], FRESH).meter.port == (
        "1-0041?serial=A7&site=CPU rail&shunt_uohm=100000"
    )
    (skip,) = meter(FRESH, wanted_of(bench, tmp_path))
    assert isinstance(skip, Skip)  # its serial number is no USB port's


def test_a_jetsons_chip_has_three_shunts_and_no_bus_to_be_told_of(tmp_path: Path) -> None:
    entry = bench_of(tmp_path, HOSTS).hosts[0].meter
    jetson = replace(entry, i2c="", port="ina3221/VDD_IN", update_ms=0, shunt_uohm=5000)
    assert rules(jetson) == (
        'SUBSYSTEM=="hwmon", ATTR{name}=="ina3221", ATTR{shunt1_resistor}="5000", '
        'ATTR{shunt2_resistor}="5000", ATTR{shunt3_resistor}="5000"\n'
    )


def test_a_fresh_board_gets_bus_and_rules_once_and_loses_them_with_the_wish(tmp_path: Path) -> None:
    wanted = wanted_of(bench_of(tmp_path, HOSTS), tmp_path)
    fresh = replace(FRESH, boot_config=CONFIG)
    steps = [item for item in sensor(fresh, wanted) if isinstance(item, HostStep)]
    assert [(step.subject, step.reason) for step in steps] == [
        ("sensor's bus", "/boot/firmware/config.txt lacks dtparam=i2c_arm=on"),
        ("sensor", f"{layout.SENSOR_RULES} is not there"),
    ]
    (file,) = steps[1].files
    seen = FileFacts(hashlib.sha256(file.content).hexdigest(), file.mode, file.owner)
    done = replace(fresh, boot_config=with_bus(CONFIG), files={layout.SENSOR_RULES: seen})
    assert list(sensor(done, wanted)) == []
    host = replace(wanted.host, meter=replace(wanted.host.meter, i2c="", shunt_uohm=0, update_ms=0))
    (gone,) = sensor(done, replace(wanted, host=host))
    assert isinstance(gone, HostStep)
    assert gone.reason.endswith("is of no use any more")
    (skip,) = sensor(replace(fresh, container="docker"), wanted)
    assert isinstance(skip, Skip)


def test_what_is_written_to_config_txt_is_taken_out_again(tmp_path: Path) -> None:
    config = tmp_path / "config.txt"
    config.write_text(CONFIG)
    here = str(subject._BUS_ON).replace(layout.BOOT_CONFIG, str(config))
    subprocess.run(["sh", "-c", here, "sh", *subject._LINES], check=True, capture_output=True)
    assert config.read_text() == with_bus(CONFIG)
    assert with_bus(config.read_text()) == config.read_text()
    assert removal.remains(replace(FRESH, boot_config=config.read_text())) == [layout.BOOT_CONFIG]
    undone = str(removal._UNPROVISION)
    lines = undone[undone.index("if grep -qsFx") : undone.index("for file in")]
    subprocess.run(["sh", "-c", lines.replace(layout.BOOT_CONFIG, str(config))], check=True)
    assert config.read_text() == f"{CONFIG}\n"


@pytest.mark.parametrize(
    "line", ["dtparam=i2c_arm=on", "dtparam=i2c=on,spi=on", "dtparam=audio=on,i2c_arm=on"]
)
def test_a_bus_that_is_on_already_stays_as_it_is(line: str) -> None:
    assert with_bus(f"{CONFIG}{line}\n") == f"{CONFIG}{line}\n"


def test_thirty_six_boards_may_have_one_port_and_a_key_that_does_not_fit_is_named(tmp_path: Path) -> None:
    many = (
        HOSTS.replace("pi-01", "pi-[01:36]").replace("10.0.0.1", "10.0.0.[1:36]").replace('serial = "A7"', "")
    )
    assert len(bench_of(tmp_path, many).hosts) == 36
    for wrong, problem in (
        (HOSTS.replace('"hwmon"', '"smartpower3"'), "meter.i2c: expected none with the driver 'smartpower3'"),
        (HOSTS.replace("ina226@1-0041", "ina226"), "meter.i2c: expected CHIP@BUS-ADDRESS"),
        (
            HOSTS.replace('i2c = "ina226@1-0041"', 'port = "VDD_IN"'),
            "meter.port: expected one that begins with a chip's name or address, got 'VDD_IN'",
        ),
    ):
        with pytest.raises(ConfigError, match=problem):
            bench_of(tmp_path, wrong)
