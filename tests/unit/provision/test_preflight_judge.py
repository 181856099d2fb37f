"""What preflight makes of what it finds: each line with what to do; nothing passes that is not there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benches import a_host
from host_facts import FRESH
from roambench.contract.errors import ConfigError
from roambench.identity.authority import Authority, serial_of
from roambench.provision import layout
from roambench.provision.bench import Host
from roambench.provision.checks import Check, CheckVerdict, HostChecks, Preflight
from roambench.provision.facts import BoardFacts, Facts, PackageFacts, UnitFacts
from roambench.provision.platforms import Platform
from roambench.provision.preflight.agent_checks import CONFINE, Trust, meter_fresh
from roambench.provision.preflight.facts import AgentAnswers, ClockOffset, Seen, clock_offset
from roambench.provision.preflight.judge import judge
from roambench.provision.wheels.program_kit import KitSpec, ProgramKit

NOW = dt.datetime.now(dt.UTC)
AUTHORITY = Authority.create()
MIB = 2**20
PASS, WARN, FAIL, SKIP = CheckVerdict.PASS, CheckVerdict.WARN, CheckVerdict.FAIL, CheckVerdict.SKIP


def unit(state: str) -> dict[str, UnitFacts]:
    return {layout.UNIT: UnitFacts(state, "enabled", "no")}


def radio(power_save: str) -> BoardFacts:
    return replace(FRESH.board, governors=("performance",), power_save={"wlan0": power_save})


def governed(*governors: str) -> BoardFacts:
    return replace(radio("off"), governors=governors)


PI = replace(
    FRESH,
    machine_id="m1",
    units=unit("active"),
    current="b" * 64,
    wheels="w" * 64,
    state_free_bytes=20_000 * MIB,
    memory_available_bytes=600 * MIB,
    board=radio("off"),
    throttled=0,
    interfaces=("lo", "wlan0"),
    time_synchronised=True,
    no_way="",
    certificate_pem=AUTHORITY.issue("pi-01").certificate_pem.decode(),
)
AGENT = AgentAnswers(
    build="b" * 64, meter_state="ok", meter_age_s=0.4, idle_watts=1.9, smoke_ok=True, smoke="step_s 0.4"
)
KIND = Platform("aarch64", "3.11")
BUILDS = {KIND: "b" * 64}
CLOCK = ClockOffset(0.003, 0.02)
CONTAINER = replace(
    PI, container="systemd-nspawn", model="", board=replace(governed("ondemand"), power_save={}),
    throttled=None, interfaces=("host0",), time_synchronised=None,
)  # fmt: skip


def checks(
    facts: Facts = PI,
    agent: AgentAnswers = AGENT,
    clock: ClockOffset = CLOCK,
    host: Host | None = None,
    build: str = "b" * 64,
    autorun: bool | str = True,
    needed: Mapping[str, PackageFacts] | None = None,
    kit: ProgramKit | None = None,
) -> dict[str, Check]:
    host = host or a_host(1)
    (found,) = judge(
        [host],
        {host.name: Seen(facts, clock, agent, autorun=autorun)},
        builds={KIND: build} if build else {},
        trust=Trust(AUTHORITY.certificate_pem),
        now=NOW,
        needed=needed,
        kit=kit,
    )
    return {check.name: check for check in found.checks}


def verdicts(found: Mapping[str, Check]) -> dict[str, CheckVerdict]:
    return {name: check.verdict for name, check in found.items()}


def test_a_pi_as_it_should_be_passes_everything() -> None:
    found = checks()
    assert set(verdicts(found).values()) == {PASS}
    assert list(found) == [
        "SSH", "OS image", "agent", "wheels", "certificate", "clock", "time sync",
        "way to controller", "disk", "memory",
        "governor", "power supply", "Wi-Fi power save", "torch", "meter", "autorun",
        "meter's port", "idle watts",
    ]  # fmt: skip
    assert not any(check.what_to_do for check in found.values())


@pytest.mark.parametrize(("system", "python"), [("debian 13", "3.13.5"), ("ubuntu 24.04", "3.12.3")])
def test_a_board_with_another_system_is_compared_with_the_build_for_its_python(
    system: str, python: str
) -> None:
    os_id, os_version = system.split()
    found = checks(replace(PI, os_id=os_id, os_version=os_version, python=python))
    assert found["OS image"].verdict is PASS
    builds = {KIND: "d" * 64, Platform("aarch64", python[:4]): "b" * 64}
    host = a_host(1)
    seen = {host.name: Seen(replace(PI, python=python), CLOCK, AGENT)}
    (board,) = judge([host], seen, builds=builds, trust=None, now=NOW)
    assert next(check for check in board.checks if check.name == "agent").verdict is PASS


def test_what_a_container_does_not_have_is_skipped_and_not_passed() -> None:
    found = checks(CONTAINER, host=a_host(1, emulated=True, interface="host0"))
    skipped = {name: check.found for name, check in found.items() if check.verdict is SKIP}
    assert skipped == {
        "time sync": "a container has its host's clock",
        "governor": "no such hardware",
        "power supply": "no such hardware",
        "Wi-Fi power save": "no such hardware: host0 is no radio",
        "meter's port": "no such hardware",
    }
    assert {check.verdict for name, check in found.items() if name not in skipped} == {PASS}


def test_a_container_on_a_pi_does_not_pass_for_the_pi() -> None:
    found = checks(replace(PI, container="systemd-nspawn"))
    assert found["governor"].verdict is SKIP
    assert found["power supply"].verdict is SKIP


#: (what is wrong with a good Pi, check, verdict, what is found, what to do)
WRONG = [
    ({"os_version": "11"}, "OS image", FAIL, "debian 11, Python 3.11.2", "Bookworm"),
    ({"os_id": "ubuntu", "os_version": "22.04"}, "OS image", FAIL, "ubuntu 22.04", "Bookworm or Trixie"),
    ({"bits": 32}, "OS image", FAIL, "aarch64, 32 bit", "64-bit"),
    ({"units": unit("failed")}, "agent", FAIL, "roambench-agent.service is failed", "journalctl"),
    ({"current": "c" * 64}, "agent", FAIL, "runs bbbbbbbbbbbb, installed is cccccccccccc", "restart"),
    ({"wheels": None}, "wheels", FAIL, "none installed", "fleet provision"),
    ({"certificate_pem": ""}, "certificate", FAIL, "none", "fleet provision"),
    ({"certificate_pem": "junk"}, "certificate", FAIL, "not a certificate", "certs rotate"),
    ({"time_synchronised": False}, "time sync", WARN, "not synchronised", "chrony"),
    ({"no_way": "::1: Network is unreachable"}, "way to controller", FAIL, "unreachable", "same family"),
    ({"state_free_bytes": 511 * MIB}, "disk", FAIL, "511 MiB free", "make room on /"),
    ({"state_free_bytes": 2047 * MIB}, "disk", WARN, "2,047 MiB free", "make room on /"),
    ({"memory_available_bytes": 199 * MIB}, "memory", FAIL, "199 MiB free", "reboot"),
    ({"memory_available_bytes": 399 * MIB}, "memory", WARN, "399 MiB free", "reboot"),
    ({"board": governed("ondemand")}, "governor", FAIL, "ondemand", "fleet provision"),
    ({"board": governed()}, "governor", WARN, "unknown", "fleet provision"),
    ({"throttled": 0x50005}, "power supply", FAIL, "now: under-voltage, throttled", "5.1 to 5.2 V"),
    ({"throttled": 0x80000}, "power supply", WARN, "since boot: soft temperature limit", "cooling"),
    ({"throttled": None}, "power supply", WARN, "unknown", "vcgencmd"),
    ({"board": radio("on")}, "Wi-Fi power save", FAIL, "on", "fleet provision"),
    ({"board": radio("")}, "Wi-Fi power save", WARN, "unknown", "iw"),
    ({"port_openers": ("brltty",)}, "meter's port", WARN, "brltty runs", "mask --now brltty"),
    ({"port_openers": ("ModemManager", "brltty")}, "meter's port", WARN,
     "ModemManager and brltty run", "mask --now ModemManager brltty"),
    ({"interfaces": ("lo",)}, "Wi-Fi power save", FAIL, "no interface wlan0", "bench file"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "name", "verdict", "found", "to_do"), WRONG)
def test_what_is_wrong_with_a_host_is_found(
    change: dict[str, object], name: str, verdict: CheckVerdict, found: str, to_do: str
) -> None:
    got = checks(replace(PI, **change))  # type: ignore[arg-type]
    assert got[name].verdict is verdict
    assert found in got[name].found
    assert to_do in got[name].what_to_do
    assert {check.verdict for other, check in got.items() if other != name} == {PASS}


#: (what is wrong with its agent, check, verdict, what is found, what to do)
WRONG_AGENT = [
    ({"build": "c" * 64}, "agent", FAIL, "runs cccccccccccc", "restart"),
    ({"run": "demo-2"}, "agent", FAIL, "takes part in run demo-2", "end-run"),
    ({"ended_run": "demo-2"}, "agent", WARN, "took part in run demo-2", "fleet fetch"),
    (
        {"smoke_ok": False, "smoke": "the trainer died: SIGILL"},
        "torch",
        FAIL,
        "SIGILL",
        "wheels",
    ),
    ({"smoke_ok": None}, "torch", SKIP, "not tried", ""),
    ({"meter_age_s": 3.1}, "meter", FAIL, "ok, last reading 3 s ago", "is its cable in"),
    ({"meter_state": "lost"}, "meter", FAIL, "lost, last reading 0 s ago", "is its cable in"),
    (
        {
            "meter_state": "unavailable",
            "meter_detail": "meter /dev/x: the meter restarted; remove /var/latch",
        },
        "meter",
        FAIL,
        "unavailable",
        "remove /var/latch",
    ),
    ({"meter_age_s": None, "meter_state": "stale"}, "meter", FAIL, "stale", "is its cable in"),
    ({"idle_watts": None}, "idle watts", FAIL, "no readings", "meter's line"),
    ({"idle_watts": 1.29}, "idle watts", FAIL, "1.29 W", "identify"),
    ({"idle_watts": 2.61}, "idle watts", FAIL, "2.61 W", "USB ports"),
]


@pytest.mark.parametrize(("change", "name", "verdict", "found", "to_do"), WRONG_AGENT)
def test_what_is_wrong_with_an_agent_is_found(
    change: dict[str, object], name: str, verdict: CheckVerdict, found: str, to_do: str
) -> None:
    got = checks(agent=replace(AGENT, **change))  # type: ignore[arg-type]
    assert (got[name].verdict, found in got[name].found, to_do in got[name].what_to_do) == (
        verdict, True, True,
    )  # fmt: skip
    assert {check.verdict for other, check in got.items() if other != name} == {PASS}


def test_an_output_that_would_stay_off_is_warned_of_and_one_that_nobody_knows_is_not_passed() -> None:
    off = checks(autorun=False)["autorun"]
    assert (off.verdict, off.found) == (WARN, "off")
    assert "roambench meter power autorun" in off.what_to_do
    unknown = checks(autorun="cannot be asked: the serial port only talks")["autorun"]
    assert (unknown.verdict, unknown.found) == (
        SKIP,
        "cannot be asked: the serial port only talks",
    )


def test_an_agent_of_another_build_than_this_server_is_refused() -> None:
    got = checks(build="a" * 64)["agent"]
    assert (got.verdict, got.expected, got.what_to_do) == (
        FAIL, "build aaaaaaaaaaaa", "roambench fleet provision",
    )  # fmt: skip


def test_a_server_that_does_not_know_its_own_build_says_so_and_compares_the_hosts() -> None:
    got = checks(build="")["agent"]
    assert (got.verdict, got.found) == (WARN, "build bbbbbbbbbbbb, which most hosts run")
    hosts = [a_host(n) for n in (1, 2, 3)]
    seen = {host.name: Seen(PI, CLOCK, AGENT) for host in hosts}
    seen["pi-02"] = Seen(replace(PI, current="c" * 64), CLOCK, replace(AGENT, build="c" * 64))
    found = judge(hosts, seen, builds={}, trust=None, now=NOW)
    agents = [next(check for check in host.checks if check.name == "agent") for host in found]
    assert [check.verdict for check in agents] == [WARN, FAIL, WARN]


def test_an_agent_that_does_not_answer_fails_all_that_only_it_knows() -> None:
    got = checks(agent=AgentAnswers(reason="no answer within 5 s"))
    failed = {name for name, check in got.items() if check.verdict is FAIL}
    assert failed == {"agent", "torch", "meter", "idle watts"}
    assert got["agent"].found == "no answer within 5 s"


@pytest.mark.parametrize(
    ("driver", "port", "within_s", "hint"),
    [
        ("smartpower2", "/dev/ttyUSB0", 3, "is its firmware 1.4 or newer"),
        ("mqtt", "broker/plug?period_s=10", 30, "does something publish to this topic"),
        ("ppk2", "/dev/ttyACM0?volts=5", 3, "the first of its two"),
        ("joulescope", "js220", 3, "does no other program hold it"),
    ],
)
def test_a_meter_is_fresh_for_three_of_its_periods_and_a_silent_one_has_a_hint(
    driver: str, port: str, within_s: int, hint: str
) -> None:
    host = a_host(1)
    host = replace(host, meter=replace(host.meter, driver=driver, port=port))
    for age_s, verdict in ((within_s - 0.5, PASS), (within_s + 0.5, FAIL)):
        found = meter_fresh(replace(AGENT, meter_age_s=age_s), host)
        assert found.verdict is verdict
    assert found.expected == f"a reading within {within_s} s"
    assert hint in found.what_to_do


@pytest.mark.parametrize(
    ("offset_s", "bound_s", "verdict"),
    [
        (0.08, 0.02, PASS),
        (0.08, 0.021, WARN),
        (-0.38, 0.02, WARN),
        (0.381, 0.02, FAIL),
        (0.0, 0.5, FAIL),
    ],
)
def test_a_clock_is_judged_by_how_wrong_it_may_be(
    offset_s: float, bound_s: float, verdict: CheckVerdict
) -> None:
    got = checks(clock=ClockOffset(offset_s, bound_s))["clock"]
    assert got.verdict is verdict
    assert ("network" in got.what_to_do) == (bound_s == 0.5)


def test_the_quickest_exchange_bounds_the_clock() -> None:
    # Host 5 s ahead. Slow: asked 0, answered 1; quick: asked 10, there 15.11, answered 10.2.
    found = clock_offset([(0.0, 5.9, 1.0), (10.0, 15.11, 10.2)])
    assert found.offset_s == pytest.approx(5.01)
    assert found.bound_s == pytest.approx(0.1)


def test_calibrated_watts_are_judged() -> None:
    host = a_host(1, gain=2.0, offset_watts=-1.9)
    assert checks(host=host)["idle watts"].found == "1.90 W"
    off = checks(host=a_host(1, gain=2.0))["idle watts"]
    assert off.verdict is FAIL
    assert off.expected == "1.3 to 2.6 W (Raspberry Pi 3 Model B Plus)"


def test_a_board_that_nobody_knows_is_told_and_not_judged() -> None:
    found = checks(replace(PI, model="Orange Pi 5"))["idle watts"]
    assert (found.verdict, found.what_to_do) == (
        WARN, "what Orange Pi 5 draws is unknown: judge for yourself",
    )  # fmt: skip
    assert checks(replace(PI, model="Raspberry Pi 3 Model B Rev 1.2"))["idle watts"].verdict is PASS


def test_what_the_kernel_reckons_with_stands_beside_a_sensors_reading() -> None:
    """A wrong shunt scales all watts: a person who reads it knows."""
    got = checks(agent=replace(AGENT, meter_settings="shunt 10000 uohm, a value each 141 ms"))
    assert got["meter"].found == "a reading 0.4 s ago; shunt 10000 uohm, a value each 141 ms"


def test_a_host_without_a_meter_has_none_to_check() -> None:
    got = checks(agent=replace(AGENT, idle_watts=None, meter_state="unknown"), host=a_host(1, driver="none"))
    assert (got["meter"].verdict, got["idle watts"].verdict) == (SKIP, SKIP)


def test_wheels_that_differ_from_those_of_the_others_are_found() -> None:
    hosts = [a_host(n) for n in (1, 2, 3)]
    seen = {
        host.name: Seen(
            replace(
                PI,
                wheels=("x" if host.slot == 2 else "w") * 64,
                certificate_pem=AUTHORITY.issue(host.name).certificate_pem.decode(),
            ),
            CLOCK,
            AGENT,
        )
        for host in hosts
    }
    found = judge(hosts, seen, builds={}, trust=None, now=NOW)
    assert [host.of(FAIL) for host in found] == [
        (), (Check("wheels", FAIL, "xxxxxxxxxxxx", "wwwwwwwwwwww", "roambench fleet provision"),), (),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("credential", "verdict", "found"),
    [
        (AUTHORITY.issue("pi-02"), FAIL, "of pi-02"),
        (AUTHORITY.issue("pi-01", lifetime=dt.timedelta(hours=47)), WARN, "until "),
        (AUTHORITY.issue("pi-01", lifetime=dt.timedelta(hours=49)), PASS, "until "),
        (Authority.create().issue("pi-01"), FAIL, "was not issued by this bench's authority"),
    ],
)
def test_a_certificate_is_of_this_host_by_this_bench_and_lasts(
    credential: object, verdict: CheckVerdict, found: str
) -> None:
    pem = credential.certificate_pem.decode()  # type: ignore[attr-defined]
    got = checks(replace(PI, certificate_pem=pem))["certificate"]
    assert got.verdict is verdict
    assert found in got.found


def test_an_expired_certificate_is_refused_without_the_authority_too() -> None:
    host = a_host(1)
    (found,) = judge(
        [host], {host.name: Seen(PI, CLOCK, AGENT)}, builds={}, trust=None,
        now=NOW + dt.timedelta(days=31),
    )  # fmt: skip
    (failed,) = found.of(FAIL)
    assert failed.found.startswith("expired ")


def test_a_revoked_certificate_is_refused() -> None:
    host, serial = a_host(1), serial_of((PI.certificate_pem or "").encode())
    (found,) = judge(
        [host],
        {host.name: Seen(PI, CLOCK, AGENT)},
        builds={},
        trust=Trust(AUTHORITY.certificate_pem, frozenset({serial})),
        now=NOW,
    )
    (failed,) = found.of(FAIL)
    assert (failed.found, failed.what_to_do) == ("revoked", "roambench fleet certs rotate")


def test_a_host_that_does_not_answer_is_one_line_with_what_to_do(tmp_path: Path) -> None:
    hosts = [a_host(1), a_host(2)]
    lost = Seen(None, None, AgentAnswers(), "no answer from 10.0.0.2 port 22", "is it powered?")
    found = judge(hosts, {"pi-01": Seen(PI, CLOCK, AGENT), "pi-02": lost}, builds=BUILDS, trust=None, now=NOW)
    assert found[1] == HostChecks(
        "pi-02", (Check("SSH", FAIL, "no answer from 10.0.0.2 port 22", "", "is it powered?"),)
    )
    made = Preflight("bench", 0.0, found)
    assert not made.passed
    assert made.lines() == ["pi-02: SSH: no answer from 10.0.0.2 port 22: is it powered?"]
    assert Preflight("bench", 0.0, found[:1]).passed


def test_a_warning_stops_no_run() -> None:
    host = a_host(1)
    found = judge(
        [host], {"pi-01": Seen(replace(PI, throttled=0x10000), CLOCK, AGENT)}, builds=BUILDS, trust=None,
        now=NOW,
    )  # fmt: skip
    made = Preflight("bench", 0.0, found)
    assert made.passed
    assert len(made.lines()) == 1


def test_an_answer_that_is_none_of_an_agent_is_said() -> None:
    with pytest.raises(ConfigError, match="ctl status: not what an agent says"):
        AgentAnswers.of({"build": "b"}, None, None)


def test_a_board_without_the_users_package_is_told_before_the_start() -> None:
    here = PackageFacts("0.2", {"bench_pack/flat.py": "a" * 64})
    mine = {"bench-pack": here}
    there = replace(PI, python_packages={"bench-pack": here})
    assert checks(there, needed=mine)["packages"] == Check("packages", PASS, "bench-pack 0.2")
    lacking = checks(PI, needed=mine)["packages"]
    assert (lacking.verdict, lacking.found) == (FAIL, "lacks bench-pack 0.2")
    assert lacking.what_to_do == "roambench fleet provision --with-package its wheel or folder"
    older = replace(PI, python_packages={"bench-pack": replace(here, version="0.1")})
    assert checks(older, needed=mine)["packages"].found == "lacks bench-pack 0.2 (it has 0.1)"


def test_files_of_the_users_package_that_differ_are_told_whatever_its_version() -> None:
    there = {"bench_pack/flat.py": "a" * 64, "bench_pack/loss.py": "b" * 64, "bench_pack/w.json": "c" * 64}
    pi = replace(PI, python_packages={"bench-pack": PackageFacts("0.2", there)})

    def found(**changes: str | None) -> str:
        """What is said of a machine with these files of that package; None: without the file."""
        named = {name.replace("__", "/").replace("_py", ".py"): sha for name, sha in changes.items()}
        files = {f"bench_pack/{name}": sha for name, sha in named.items()}
        here = {name: sha for name, sha in {**there, **files}.items() if sha is not None}
        return checks(pi, needed={"bench-pack": PackageFacts("0.2", here)})["packages"].found

    assert found(flat_py="d" * 64) == "bench-pack 0.2 has not the bench_pack/flat.py that is here"
    assert found(flat_py="d" * 64, loss_py=None) == (
        "bench-pack 0.2 has not the bench_pack/flat.py and 1 more that is here"
    )
    assert found(new_py="d" * 64) == "bench-pack 0.2 has not the bench_pack/new.py that is here"
    # Folders and data that a wheel leaves out make no difference.
    assert found(tests__test_py="d" * 64, notes="d" * 64) == "bench-pack 0.2"


def test_boards_that_exchange_models_and_do_not_reach_each_other_are_named() -> None:
    def found(peers: dict[str, str] | None) -> Check | None:
        seen = {"pi-01": Seen(PI, CLOCK, AGENT, peers=peers)}
        (host,) = judge([a_host(1)], seen, builds={KIND: "b" * 64}, trust=None, now=NOW)
        return next((check for check in host.checks if check.name == "ways to boards"), None)

    assert found(None) is None
    passed = found({"pi-02 (10.0.0.2)": ""})
    assert passed is not None
    assert (passed.verdict, passed.found) == (PASS, "1 board answered")
    failed = found({"pi-02 (fd78::2)": "Network is unreachable", "pi-03 (fd78::3)": ""})
    assert failed is not None
    assert (failed.verdict, failed.found) == (FAIL, "pi-02 (fd78::2): Network is unreachable")
    many = found({f"pi-{n}": "no answer" for n in range(12)})
    assert many is not None
    assert many.found.endswith("pi-4: no answer and 7 more")


def test_a_board_has_to_have_the_program_as_it_is_here() -> None:
    kit = ProgramKit(KitSpec("flower", "quick", "1.1", (), (), "lock.txt", ""), b"files")
    whole = {"name": "quick", "version": "1.1", "environment": "env-1"}
    expected = f"quick 1.1 ({kit.digest})"
    assert checks()["SSH"].verdict is PASS
    assert "program" not in checks()
    assert checks(replace(PI, programs={kit.digest: whole, "env-1": {}}), kit=kit)["program"].verdict is PASS
    lacking = {
        "none": {},
        "quick 1.0 (abc)": {"abc": {**whole, "version": "1.0"}, "env-1": {}},
        "quick 1.1 (edited)": {"edited": whole, "env-1": {}, kit.digest: None},
        f"quick 1.1 ({kit.digest})": {kit.digest: whole, "env-1": None},
    }
    for found, programs in lacking.items():
        check = checks(replace(PI, programs=programs), kit=kit)["program"]
        assert (check.verdict, check.found, check.expected) == (FAIL, found, expected)
        assert "fleet flower" in check.what_to_do
    for confines in (None, True, False):
        found = checks(agent=replace(AGENT, confines_programs=confines), kit=kit).get("program confined")
        assert (found is not None and (found.verdict, found.what_to_do)) == (
            confines is False and (WARN, CONFINE)
        )
    assert "program confined" not in checks(agent=replace(AGENT, confines_programs=False))
