"""What there is to do on a host, from facts alone."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benches import bench_of
from host_facts import FRESH
from roambench.agent.settings import AgentSettings
from roambench.identity.authority import Credential
from roambench.provision import layout
from roambench.provision.bench import Bench
from roambench.provision.changes.removal import _SWAPPED
from roambench.provision.claims import claim_by
from roambench.provision.facts import BoardFacts, Facts, FileFacts, UnitFacts
from roambench.provision.planning import plan, unfit
from roambench.provision.step import HostStep, RemoteFile, Skip
from roambench.provision.subjects.identity import identity_reason
from roambench.provision.subjects.meter import meter
from roambench.provision.subjects.program import environment_of
from roambench.provision.subjects.service import agent_unit
from roambench.provision.subjects.settings import agent_settings
from roambench.provision.wanted import Identity, Wanted
from roambench.provision.wheels.agent_build import AgentBuild
from roambench.provision.wheels.program_kit import BoardKit, KitSpec, ProgramKit
from roambench.provision.wheels.wheel_closure import Wheel
from roambench.provision.wheels.wheelhouse import Wheelhouse

_QUIET = BoardFacts(("performance",), {"ACT": "none"}, {}, {"wlan0": "off"}, (), {})
_CREDENTIAL = Credential(b"cert\n", b"key\n", b"ca\n")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_of(tmp_path, '[[hosts]]\nname = "pi-01"\naddress = "10.0.0.1"\nmeter.serial = "A7"')


@pytest.fixture
def wanted(bench: Bench, tmp_path: Path) -> Wanted:
    wheel = tmp_path / "roambench-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    torch = Wheel("torch", "2.9.1", "torch.whl", "0" * 64, 98_000_000, 390_000_000, ())
    pip = Wheel("pip", "26.3", "pip-26.3-py3-none-any.whl", "1" * 64, 2_000_000, 10_000_000, ())
    build = AgentBuild(
        "code", wheel, "0.1.0", Wheelhouse("aarch64", "3.11", "house", tmp_path / "house.tar", (pip, torch))
    )
    return Wanted(bench, bench.hosts[0], build, Identity("no certificate", _CREDENTIAL))


def _subjects(facts: Facts, wanted: Wanted) -> list[str]:
    return [step.subject for step in plan(facts, wanted).steps]


def _after(facts: Facts, wanted: Wanted) -> Facts:
    """The host as its steps leave it."""
    steps = plan(facts, wanted).steps
    files = {file.path: _seen(file) for step in steps for file in step.files}
    folders = {
        **dict.fromkeys((layout.OPT, layout.BUILDS, layout.WHEELS), FileFacts("", 0o755, "root:root")),
        layout.ETC: FileFacts("", 0o750, "root:roambench"),
        layout.IDENTITY: FileFacts("", 0o700, "roambench:roambench"),
        layout.STATE: FileFacts("", 0o750, "roambench:roambench"),
    }
    running = UnitFacts("active", "enabled", "no")
    units = (
        *(layout.UNIT, layout.BOARD_UNIT, "chrony.service", "chrony-wait.service"),
        *("systemd-timesyncd.service", "systemd-time-wait-sync.service"),
    )
    return replace(
        facts,
        user_groups=("dialout", "roambench", "video"),
        files={**facts.files, **folders, **files},
        units=dict.fromkeys(units, running),
        current=wanted.build.hash,
        previous=facts.current,
        builds={wanted.build.hash: {"version": "0.1.0"}},
        wheelhouses=("house",),
        certificate_pem="cert",
        authority_pem="ca",
        board=_QUIET,
    )


def _seen(file: RemoteFile) -> FileFacts:
    return FileFacts(hashlib.sha256(file.content).hexdigest(), file.mode, file.owner)


def _step(facts: Facts, wanted: Wanted, subject: str) -> HostStep:
    return next(step for step in plan(facts, wanted).steps if step.subject == subject)


def test_a_fresh_board_needs_everything_in_this_order(wanted: Wanted) -> None:
    assert _subjects(FRESH, wanted) == [
        "user",
        "folders",
        "logs",
        "clock",
        "clock at boot",
        "meter's name",
        "wheels",
        "environment",
        "build",
        "certificate",
        "settings",
        "board",
        "service",
        "agent",
    ]
    assert all(step.reason for step in plan(FRESH, wanted).steps)


def test_a_board_is_claimed_before_anything_is_done_to_it(wanted: Wanted) -> None:
    claiming = replace(wanted, claim=claim_by(wanted.bench))
    assert _subjects(FRESH, claiming) == ["claim", *_subjects(FRESH, wanted)]


def test_a_board_that_is_as_it_should_be_needs_nothing(wanted: Wanted) -> None:
    done = replace(wanted, identity=Identity())
    assert plan(_after(FRESH, wanted), done).steps == ()


def test_another_build_is_installed_and_the_agent_restarted_and_nothing_else(wanted: Wanted) -> None:
    facts = _after(FRESH, wanted)
    newer = replace(wanted, identity=Identity(), build=replace(wanted.build, code="newer"))
    assert _subjects(facts, newer) == ["environment", "build", "agent"]
    assert _step(facts, newer, "build").values == (newer.build.hash, "house", "")


def test_a_half_installed_build_is_installed_again_without_shipping_the_wheels(wanted: Wanted) -> None:
    facts = replace(_after(FRESH, wanted), builds={wanted.build.hash: None}, current="")
    step = _step(facts, wanted, "environment")
    assert step.reason.startswith("only half of build")
    assert "wheels" not in _subjects(facts, wanted)


def test_a_certificate_alone_restarts_nothing_and_its_key_is_secret(wanted: Wanted) -> None:
    facts = _after(FRESH, wanted)
    assert _subjects(facts, wanted) == ["certificate"]
    files = _step(facts, wanted, "certificate").files
    assert [(Path(file.path).name, file.mode, file.secret) for file in files] == [
        ("key.pem", 0o600, True),
        ("ca.pem", 0o644, False),
        ("cert.pem", 0o644, False),
    ]


def test_a_certificate_is_renewed_for_a_doubt_a_lost_key_or_another_authority(wanted: Wanted) -> None:
    facts = _after(FRESH, wanted)
    assert identity_reason(facts, "", b"ca\n") == ""
    assert identity_reason(facts, "its certificate ends soon", b"ca\n") == "its certificate ends soon"
    assert identity_reason(facts, "", b"another\n") == "it trusts another authority"
    assert identity_reason(FRESH, "", b"") == "no private key"


def test_what_a_container_does_not_have_is_listed_and_not_done(wanted: Wanted) -> None:
    facts = replace(FRESH, container="systemd-nspawn", packages={})
    planned = plan(facts, wanted)
    assert {"packages", "clock", "board"}.isdisjoint(step.subject for step in planned.steps)
    assert {skip.subject for skip in planned.skips} == {
        "clock",
        "CPU governor",
        "LEDs",
        "HDMI",
        "Wi-Fi power save",
        "Bluetooth",
        "swap",
    }


def test_a_board_is_told_what_is_loud_on_it_and_what_it_lacks(wanted: Wanted) -> None:
    planned = plan(FRESH, wanted)
    reason = _step(FRESH, wanted, "board").reason
    assert "CPU governor: ondemand; LEDs: ACT shows mmc0; Wi-Fi power save: wlan0 saves" in reason
    assert "swap: /var/swap is used" in reason
    assert [(skip.subject, skip.why) for skip in planned.skips] == [("HDMI", "no HDMI port here")]


def test_settings_are_what_the_agent_itself_accepts(wanted: Wanted, tmp_path: Path) -> None:
    (file,) = _step(FRESH, wanted, "settings").files
    path = tmp_path / "agent.json"
    path.write_bytes(file.content)
    settings = AgentSettings.load(path)
    assert (settings.device, settings.controller) == ("pi-01", "10.36.0.1:21710")
    assert settings.meter.port == "/dev/roambench-meter?serial=A7"
    assert not settings.meter.reopen_allowed
    assert settings.run == ""
    assert (file.mode, file.owner) == (0o640, "root:roambench")


def test_whoever_has_tried_it_allows_a_meter_to_be_opened_again(wanted: Wanted) -> None:
    host = replace(wanted.host, meter=replace(wanted.host.meter, reopen_allowed=True))
    assert agent_settings(wanted.bench, host, FRESH).meter.reopen_allowed


def test_the_meter_is_named_by_its_serial_and_nothing_opens_its_port(wanted: Wanted) -> None:
    """Opening it may cut the board's power: only the agent does that, with its latch."""
    (file,) = _step(FRESH, wanted, "meter's name").files
    rule = file.content.decode()
    assert 'ATTRS{serial}=="A7"' in rule
    assert 'SYMLINK+="roambench-meter"' in rule
    assert not any(word in rule for word in ("RUN", "PROGRAM", "IMPORT", "stty"))
    assert 'ENV{ID_MM_PORT_IGNORE}="1"' in rule  # ModemManager is on every card


def test_a_meter_that_is_opened_as_a_usb_device_is_the_agents_to_open(tmp_path: Path) -> None:
    """The kernel gives such a device to root alone, and the unit allows serial ports alone."""
    bench = bench_of(
        tmp_path,
        """
        [[hosts]]
        name = "pi-01"
        address = "10.0.0.1"
        meter = { driver = "joulescope", port = "js220/000123" }
        [[hosts]]
        name = "pi-02"
        address = "10.0.0.2"
        meter = { driver = "ppk2", port = "/dev/roambench-meter?volts=5.1", serial = "C1" }
        """,
    )
    build = AgentBuild("code", tmp_path / "wheel", "0.1.0", None)  # type: ignore[arg-type]
    js220, ppk2 = (Wanted(bench, host, build, Identity()) for host in bench.hosts)
    (step,) = meter(FRESH, js220)
    assert isinstance(step, HostStep)
    assert step.values == ("--subsystem-match=usb",)
    js110_rule, js220_rule = step.files[0].content.decode().splitlines()
    assert 'ATTR{idVendor}=="16d0", ATTR{idProduct}=="0e88"' in js110_rule
    assert js220_rule == (
        'SUBSYSTEM=="usb", ENV{DEVTYPE}=="usb_device", ATTR{idVendor}=="16d0", ATTR{idProduct}=="10ba", '
        'SYMLINK+="roambench-meter", GROUP="dialout", MODE="0660"'
    )
    allowed = "DeviceAllow=char-usb_device rw"
    assert [allowed in agent_unit(FRESH, bench, host) for host in bench.hosts] == [True, False]
    # A PPK2 has two serial ports with one number.
    (step,) = meter(FRESH, ppk2)
    assert isinstance(step, HostStep)
    (rule,) = step.files[0].content.decode().splitlines()
    assert 'ATTRS{serial}=="C1", ENV{ID_USB_INTERFACE_NUM}=="01", SYMLINK' in rule


def test_a_disk_without_room_is_refused_with_both_numbers(wanted: Wanted) -> None:
    """100 MB of wheels and 400 MB x 1.3 installed, the same again for an upgrade, and what preflight asks."""
    (refusal,) = plan(replace(FRESH, disk_free_bytes=1_700_000_000), wanted).refusals
    assert refusal.reason == (
        "/opt/roambench is on /, which has 1700 MB left, needs 1777 MB "
        "(620 for this build, 620 for an upgrade, 537 for a run)"
    )
    assert plan(replace(FRESH, disk_free_bytes=1_777_000_000), wanted).refusals == ()


def test_an_upgrade_needs_room_for_itself_and_a_run_and_a_host_with_nothing_to_ship_for_readings(
    wanted: Wanted,
) -> None:
    there = replace(_after(FRESH, wanted), disk_free_bytes=70_000_000)
    assert plan(there, wanted).refusals == ()
    (refusal,) = plan(there, replace(wanted, build=replace(wanted.build, code="newer"))).refusals
    assert refusal.reason == (
        "/opt/roambench is on /, which has 70 MB left, needs 1057 MB (520 for this build, 537 for a run)"
    )


def test_a_host_of_another_kind_is_unfit(wanted: Wanted) -> None:
    assert [unfit(replace(FRESH, python=version)) for version in ("3.11.2", "3.13.5", "3.14.0rc2")] == [
        (),
        (),
        (),
    ]
    (refusal,) = unfit(replace(FRESH, os_id="ubuntu", os_version="22.04", python="3.10.12"))
    assert refusal.reason == "its Python is 3.10.12, expected 3.11 to 3.14"
    assert "docs/build.md" in refusal.next_action
    facts = replace(FRESH, machine="armv7l", bits=32, python="3.9.2", init="init")
    assert [refusal.reason for refusal in unfit(facts)] == [
        "it is a 32-bit armv7l system, expected aarch64, x86_64",
        "its Python is 3.9.2, expected 3.11 to 3.14",
        "its init is init, expected systemd",
    ]
    # A 64-bit kernel under a 32-bit system, as Raspberry Pi OS has it: no wheel of ours fits.
    (refusal,) = unfit(replace(FRESH, bits=32))
    assert refusal.reason == "it is a 32-bit aarch64 system, expected aarch64, x86_64"


def test_a_file_of_the_right_content_has_to_be_of_the_right_owner_and_mode_too(wanted: Wanted) -> None:
    facts = _after(FRESH, wanted)
    good = facts.files[layout.SETTINGS]
    assert good is not None
    done = replace(wanted, identity=Identity())
    for wrong in (replace(good, mode=0o644), replace(good, owner="root:root")):
        found = replace(facts, files={**facts.files, layout.SETTINGS: wrong})
        assert _subjects(found, done) == ["settings", "agent"]
        assert _step(found, done, "settings").reason == (
            f"{layout.SETTINGS} is {wrong.mode:04o} {wrong.owner}, not 0640 root:roambench"
        )


def test_an_agent_that_runs_now_but_not_after_a_boot_is_enabled(wanted: Wanted) -> None:
    facts = _after(FRESH, wanted)
    units = {**facts.units, layout.UNIT: UnitFacts("active", "disabled", "no")}
    done = replace(wanted, identity=Identity())
    (step,) = plan(replace(facts, units=units), done).steps
    assert (step.subject, step.reason) == ("agent", "it does not start at boot")


def test_a_card_of_raspberry_pi_os_keeps_its_time_client_and_asks_the_internet_for_nothing(
    wanted: Wanted,
) -> None:
    step = _step(FRESH, wanted, "clock")
    conf, wait = step.files
    assert (conf.path, conf.content.splitlines()[:2]) == (
        layout.TIMESYNCD_CONF,
        [b"[Time]", b"NTP=10.36.0.1"],
    )
    # Without its server a board would never start its agent.
    assert (wait.path, wait.content) == (layout.TIME_WAIT_DROP_IN, b"[Service]\nTimeoutStartSec=180\n")
    assert step.values == ("systemd-timesyncd.service", "-u", "systemd-timesyncd")
    assert _step(FRESH, wanted, "clock at boot").values == ("systemd-time-wait-sync.service",)
    assert not [s for s in plan(FRESH, wanted).steps if "apt-get" in s.script or "ensurepip" in s.script]


def test_what_a_bare_debian_lacks_is_said_to_need_the_internet_before_anything_is_done(
    wanted: Wanted,
) -> None:
    step = _step(replace(FRESH, packages={}), wanted, "packages")
    assert step.reason == (
        "not installed: systemd-timesyncd, iw (from Debian's archive: this needs the internet)"
    )
    assert "packages" not in _subjects(replace(FRESH, packages={"chrony": "4.3", "iw": "5.19"}), wanted)


def test_folders_that_a_careful_umask_shut_are_opened_again(wanted: Wanted) -> None:
    facts = _after(FRESH, wanted)
    shut = {path: FileFacts("", 0o700, "root:root") for path in (layout.BUILDS, layout.WHEELS)}
    done = replace(wanted, identity=Identity())
    (step,) = plan(replace(facts, files={**facts.files, **shut}), done).steps
    assert step.reason == f"missing or not as they should be: {layout.BUILDS}, {layout.WHEELS}"
    assert step.values == (
        *("0755", "root", "root", layout.BUILDS),
        *("0755", "root", "root", layout.WHEELS),
    )


def test_chrony_steps_in_its_first_minute_and_never_later(wanted: Wanted) -> None:
    facts = replace(FRESH, packages={"chrony": "4.3", "iw": "5.19"})
    (conf,) = (file for file in _step(facts, wanted, "clock").files if file.path == layout.CHRONY_CONF)
    lines = conf.content.decode().splitlines()
    assert [line for line in lines if line.startswith("makestep")] == ["makestep 1 3"]
    assert lines[0] == "server 10.36.0.1 iburst minpoll 4 maxpoll 6"


def test_a_build_is_called_by_its_code_and_all_it_is_installed_with(wanted: Wanted) -> None:
    build = wanted.build
    assert build.hash == hashlib.sha256(b"code house").hexdigest()[:16]
    about = json.loads(_step(FRESH, wanted, "environment").values[4])
    assert about["build"] == build.hash


def _carried_out(script: str, values: Sequence[str], root: Path) -> int:
    """What the shell makes of it, with everything of a host under `root`."""
    (root / "run").mkdir(exist_ok=True)
    for path in (layout.OPT, layout.ETC, "/etc/systemd", layout.LOCK):
        script = script.replace(path, f"{root}{path}")
    return subprocess.run(["sh", "-c", script, "sh", *values], check=False).returncode


@pytest.mark.parametrize("there", [True, False])
def test_a_switch_keeps_what_the_build_before_ran_with_if_that_is_still_there(
    wanted: Wanted, tmp_path: Path, there: bool
) -> None:
    newer = replace(wanted, identity=Identity(), build=replace(wanted.build, code="newer"))
    old, new = wanted.build.hash, newer.build.hash
    opt = tmp_path / layout.OPT.lstrip("/")
    for folder in (opt / "builds" / new / "venv", opt / "wheels", tmp_path / layout.ETC.lstrip("/")):
        folder.mkdir(parents=True)
    (tmp_path / layout.SETTINGS.lstrip("/")).write_text("what it ran with")
    (opt / "builds" / new / "build.json").touch()
    (opt / "current").symlink_to(f"builds/{old}/venv")
    if there:
        (opt / "builds" / old / "venv").mkdir(parents=True)
    step = _step(_after(FRESH, wanted), newer, "build")
    assert _carried_out(step.script, step.values, tmp_path) == 0
    assert (opt / "current").readlink() == Path(f"builds/{new}/venv")
    assert (opt / "previous").readlink() == Path(f"builds/{old}/venv")
    kept = opt / "builds" / old / "agent.json"
    assert (kept.read_text() if there else kept.exists()) == ("what it ran with" if there else False)


@pytest.mark.parametrize("there", [True, False])
def test_one_can_go_back_from_a_build_that_is_there_no_more(
    wanted: Wanted, tmp_path: Path, there: bool
) -> None:
    facts = replace(_after(FRESH, wanted), current="new", previous="old")
    opt = tmp_path / layout.OPT.lstrip("/")
    for folder in (opt / "builds/old", tmp_path / layout.ETC.lstrip("/")):
        folder.mkdir(parents=True)
    if there:
        (opt / "builds/new").mkdir()
    settings = tmp_path / layout.SETTINGS.lstrip("/")
    settings.write_text('{"device": "pi-01", "of": "new"}')
    (opt / "builds/old/agent.json").write_text('{"device": "pi-01", "of": "old"}')
    words = (facts.current, facts.previous, '"device": "pi-01"')
    assert _carried_out(f"set -e\ncd {layout.OPT}\n{_SWAPPED}", words, tmp_path) == 0
    assert json.loads(settings.read_text())["of"] == "old"
    assert (opt / "builds/new/agent.json").exists() is there


def test_a_program_comes_with_its_environment_and_goes_when_the_bench_has_none(wanted: Wanted) -> None:
    there = _after(FRESH, wanted)
    kit = ProgramKit(KitSpec("flower", "quick", "1.1", ("flwr",), ("flwr",), "lock.txt", "check"), b"files")
    house = replace(wanted.build.wheelhouse, hash="beside", wheels=())
    asks = replace(wanted, identity=Identity(), build=replace(wanted.build, kit=BoardKit(kit, house)))
    assert [step.subject for step in plan(there, asks).steps] == ["wheels", "program", "program"]
    environment = environment_of(asks.build)
    about = {"name": "quick", "version": "1.1", "environment": environment}
    whole = replace(there, programs={environment: {}, kit.digest: about})
    assert plan(whole, asks).steps == ()

    edited = ProgramKit(kit.spec, b"other files")
    newer = replace(asks, build=replace(asks.build, kit=BoardKit(edited, house)))
    (step,) = plan(whole, newer).steps
    assert step.reason == f"has quick 1.1, not quick 1.1 ({edited.digest})"
    assert not step.restarts  # each run loads it

    other = replace(asks.build, wheelhouse=replace(asks.build.wheelhouse, hash="newer lock"))
    upgraded = replace(whole, builds={other.hash: {}}, current=other.hash, wheelhouses=("newer lock",))
    subjects = [step.subject for step in plan(upgraded, replace(asks, build=other)).steps]
    assert subjects == ["wheels", "program", "program"]

    (step,) = plan(whole, replace(wanted, identity=Identity())).steps
    assert step.reason == "the bench has no program any more"


def test_a_reader_has_its_neighbours_meter_by_its_serial_number_and_that_one_none(
    tmp_path: Path,
) -> None:
    bench = bench_of(
        tmp_path,
        """
        [defaults.meter]
        driver = "smartpower2"
        [[hosts]]
        name = "pi-01"
        address = "10.0.0.1"
        meter = { serial = "A7", host = "pi-02" }
        [[hosts]]
        name = "pi-02"
        address = "10.0.0.2"
        meter.serial = "B8"
        """,
    )
    metered, reader = (agent_settings(bench, host, FRESH) for host in bench.hosts)
    assert (metered.meter.port, metered.neighbours) == ("", {})
    assert reader.meter.port == "/dev/roambench-meter?serial=B8"
    assert {name: meter.port for name, meter in reader.neighbours.items()} == {
        "pi-01": "/dev/roambench-meter-pi-01?serial=A7&reader=pi-02"
    }
    path = tmp_path / "agent.json"
    path.write_text(reader.to_json())
    assert AgentSettings.load(path) == reader
    build = AgentBuild("code", tmp_path / "wheel", "0.1.0", None)  # type: ignore[arg-type]
    (skip,), (named,) = (meter(FRESH, Wanted(bench, host, build, Identity())) for host in bench.hosts)
    assert (isinstance(skip, Skip), skip.why) == (True, "pi-02 reads its meter")
    rules = named.files[0].content.decode().splitlines()
    assert ['SYMLINK+="roambench-meter"' in rules[0], 'ATTRS{serial}=="B8"' in rules[0]] == [True, True]
    assert ['SYMLINK+="roambench-meter-pi-01"' in rules[1], 'ATTRS{serial}=="A7"' in rules[1]] == [True, True]
