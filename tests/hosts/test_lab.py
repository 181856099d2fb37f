"""The hosts are what the other tests take them for: machines of their own that can be broken and mended."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hosts.lab import recipe
from hosts.lab.bench_hosts import BenchHosts
from roambench.meters.power_switch import Unavailable, power_switch
from roambench.provision.inventory.load import load_bench


def test_three_debians_say_who_they_are_and_let_their_user_become_root(bench_hosts: BenchHosts):
    said = [bench_hosts.ssh(name, "hostname; sudo id -u; cat /etc/machine-id") for name in bench_hosts.names]
    assert [lines[:2] for lines in said] == [["pi1", "0"], ["pi2", "0"], ["pi3", "0"]]
    assert len({lines[2] for lines in said}) == 3


def test_the_description_of_the_set_is_a_bench(bench_hosts: BenchHosts):
    bench = load_bench(bench_hosts.bench)
    assert [(host.name, host.address) for host in bench.hosts] == [
        (name, bench_hosts.address(name)) for name in ("pi1", "pi2", "pi3")
    ]
    assert all(host.meter.emulated for host in bench.hosts)


def test_the_hosts_are_a_raspberry_pi_os_a_plain_and_a_hardened_debian_without_what_no_card_has(
    bench_hosts: BenchHosts,
):
    named = "chrony systemd-timesyncd python3-venv network-manager"
    asked = (
        f"dpkg-query -W -f '${{db:Status-Abbrev}} ${{Package}}\\n' {named} 2>/dev/null | sed -n 's/^ii *//p'"
    )
    found = {name: bench_hosts.inside(name, asked).split() for name in bench_hosts.names}
    assert found == {
        "pi1": ["network-manager", "python3-venv", "systemd-timesyncd"],
        "pi2": [],
        "pi3": ["chrony"],
    }
    for name in bench_hosts.names:
        made = "ls -d /etc/systemd/*.d /etc/systemd/system/*.d 2>/dev/null || true"
        assert bench_hosts.inside(name, made) == ""
    assert bench_hosts.ssh("pi3", "echo $FISH_VERSION; umask; sudo sh -c umask")[1:] == ["0077", "0077"]


def test_debian_comes_from_where_this_machine_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As apt itself reads its sources, of both kinds; nothing of them is one of our constants."""
    monkeypatch.delenv("ROAMBENCH_DEBIAN_MIRROR", raising=False)
    (tmp_path / "parts").mkdir()
    (tmp_path / "list").write_text("deb https://other.example/apt bookworm main\n")
    conf = tmp_path / "apt.conf"
    conf.write_text(f'Dir::Etc::sourcelist "{tmp_path}/list";\nDir::Etc::sourceparts "{tmp_path}/parts";\n')
    monkeypatch.setenv("APT_CONFIG", str(conf))
    deb822 = "Types: deb\nURIs: http://near.example/debian\nSuites: {}\nComponents: main contrib\n"
    (tmp_path / "parts/debian.sources").write_text(deb822.format("trixie trixie-updates"))
    assert recipe.mirror() == "http://near.example/debian"
    (tmp_path / "parts/debian.sources").write_text(deb822.format("bookworm bookworm-updates"))
    (tmp_path / "list").write_text("deb http://archive.ubuntu.com/ubuntu noble main\n")
    assert recipe.mirror() == "http://near.example/debian"
    (tmp_path / "parts/debian.sources").unlink()
    assert recipe.mirror() == "http://deb.debian.org/debian"


def test_a_computing_host_moves_its_own_meter_and_no_other(bench_hosts: BenchHosts):
    bench_hosts.settle("pi1", "pi2")  # a boot computes, too
    bench_hosts.ssh("pi2", "setsid timeout 12 sh -c 'while :; do :; done' > /dev/null 2>&1 &")
    # What nobody has read yet waits in a pseudo-terminal: away with it.
    read = "sudo timeout 1 cat /dev/ttyMETER > /dev/null; sudo timeout 4.5 cat /dev/ttyMETER | cut -d, -f3"
    with ThreadPoolExecutor() as both:  # while it computes
        said = {name: both.submit(bench_hosts.ssh, name, read) for name in ("pi1", "pi2")}
    watts = {
        name: [float(line) for line in lines.result() if line.count(".") == 1] for name, lines in said.items()
    }
    assert max(watts["pi2"]) > 2.3  # 1.9 W idle, 0.8 W for a busy core
    assert sorted(watts["pi1"])[len(watts["pi1"]) // 2] < 2.0


def test_a_host_without_power_answers_nobody_and_keeps_its_disk(bench_hosts: BenchHosts):
    bench_hosts.inside("pi3", "echo kept > /root/note")
    bench_hosts.off("pi3")
    with pytest.raises(OSError), socket.create_connection((bench_hosts.address("pi3"), 22), timeout=0.5):
        pass
    bench_hosts.on("pi3")
    assert bench_hosts.inside("pi3", "cat /root/note") == "kept\n"


def test_switching_a_meter_off_by_its_websocket_takes_its_host_down(bench_hosts: BenchHosts):
    switch = power_switch("smartpower2", "/dev/null", str(bench_hosts.state()["pi3"]["hop"]))
    assert not isinstance(switch, Unavailable)
    asyncio.run(switch.off())
    _until(lambda: not bench_hosts.state()["pi3"]["on"])
    asyncio.run(switch.on())
    _until(lambda: bool(bench_hosts.state()["pi3"]["on"]))
    bench_hosts.on("pi3")
    assert bench_hosts.ssh("pi3", "hostname") == ["pi3"]


def test_a_rebooted_host_comes_back_with_its_address_and_another_boot_id(bench_hosts: BenchHosts):
    boot = "cat /proc/sys/kernel/random/boot_id"
    before = bench_hosts.inside("pi3", boot)
    bench_hosts.reboot("pi3")
    assert bench_hosts.ssh("pi3", boot) != [before.strip()]


def test_a_flashed_card_is_another_machine(bench_hosts: BenchHosts):
    told = "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub; ls /root/note 2>&1 || true"
    bench_hosts.inside("pi3", "touch /root/note")
    before = bench_hosts.inside("pi3", told).splitlines()
    bench_hosts.flash("pi3")
    after = bench_hosts.inside("pi3", told).splitlines()
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False, False]


def test_a_filled_disk_takes_nothing_more_until_it_is_emptied(bench_hosts: BenchHosts):
    bench_hosts.fill_disk("pi3", leave_mib=2)
    with pytest.raises(RuntimeError, match="No space left on device"):
        bench_hosts.inside("pi3", "head -c 4000000 /dev/zero > /opt/more")
    bench_hosts.empty_disk("pi3")
    bench_hosts.inside("pi3", "head -c 4000000 /dev/zero > /opt/more && rm /opt/more")


def _until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 120.0
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
