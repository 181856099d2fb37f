"""From a flashed card to a host that provisioning reaches, with nothing typed on the board.

The card boots by systemd with the command line that is on it, and gets its address from NetworkManager.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.lab import image
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import roambench
from hosts.lab.command import do
from hosts.lab.foreign import NATIVE
from hosts.lab.fresh_card import CALLS, CMDLINE, FreshCard, SeededCard, ship
from hosts.lab.network import INTERFACE, Network

_INDEX = 9
_BENCH = """
[controller]
address = "MACHINE"
[defaults]
ssh_key = "KEY"
ssh_user = "lab-7"
ssh_port = 2207
meter.driver = "none"
[[hosts]]
name = "desk-07"
address = "ADDRESS"
"""
_CABLE = """
interface = "eth0"
[hosts.card]
country = "CH"
subnet = "SUBNET"
gateway = "MACHINE"
timezone = "Asia/Kathmandu"
"""
_SSID = 'it\'s `a "b" $(reboot) \\ ü;=#'
_PASSPHRASE = 'cor\'rect $(horse) \\ "battery" 7'
_NETPLAN = """
mkdir -p /tmp/root/etc/netplan
install -m 600 /boot/firmware/radio.yaml /tmp/root/etc/netplan/
netplan generate --root-dir /tmp/root
cd /etc/NetworkManager/system-connections
sed 's/^id=.*/id=bench/' /tmp/root/run/NetworkManager/system-connections/*wlan0* >bench.nmconnection
chmod 600 bench.nmconnection
"""
_RADIO = """
[hosts.card]
country = "CH"
hidden = true
passphrase_file = "passphrase"
ssid = SSID
"""


@pytest.fixture
def card(bench_hosts: BenchHosts) -> Iterator[FreshCard]:
    """In a host of its own on the hosts' network, without power."""
    yield from _flashed(bench_hosts, FreshCard, "raspios")


@pytest.fixture
def seeded_card(bench_hosts: BenchHosts) -> Iterator[FreshCard]:
    """As `card`, of an image with cloud-init."""
    yield from _flashed(bench_hosts, SeededCard, "cloud")


def _flashed(bench_hosts: BenchHosts, kind: type[FreshCard], flavour: str) -> Iterator[FreshCard]:
    network = _network(bench_hosts)
    made = kind("fresh", _INDEX, network, bench_hosts.folder, image.root(NATIVE, flavour), "", flavour)
    made.flash()
    network.lay_cable(_INDEX)
    try:
        yield made
    finally:
        made.discard()
        do("ip", "netns", "delete", network.namespace(_INDEX))


def test_a_flashed_card_becomes_a_host_that_provisioning_reaches(
    card: FreshCard, bench_hosts: BenchHosts, tmp_path: Path
):
    shipped = tmp_path / "shipped"
    shutil.copytree(card.boot, shipped)
    bench = _bench(tmp_path, card.address, bench_hosts, _CABLE)

    said = roambench("fleet", "image", bench, "--boot", card.boot)
    assert said.code == 0, said
    assert "wrote firstrun.sh, cmdline.txt" in said.out
    assert "nothing to change" in roambench("fleet", "image", bench, "--boot", card.boot).out
    do("shellcheck", card.boot / "firstrun.sh")

    card.first_boot()
    card.second_boot()
    told = (card.boot / "firstrun.log").read_text()
    assert "FAILED" not in told, told
    line = CMDLINE.replace(" init=/usr/lib/raspberrypi-sys-mods/firstboot", "")
    wanted = f"{line} cgroup_enable=memory cfg80211.ieee80211_regdom=CH\n"
    assert (card.boot / "cmdline.txt").read_text() == wanted
    assert not (card.boot / "firstrun.sh").exists()
    card.port = 2207
    card.third_boot()

    key = " ".join(bench_hosts.key.with_suffix(".pub").read_text().split()[:2])
    assert card.inside(f"cat {CALLS}").splitlines() == [
        "imager_custom <set_hostname> <desk-07>",
        f"imager_custom <enable_ssh> <-k> <{key}>",
        "userconf <lab-7> <!>",
        "imager_custom <set_wlan_country> <CH>",
        "imager_custom <set_timezone> <Asia/Kathmandu>",
    ]
    assert card.inside("passwd --status lab-7 | cut -d' ' -f2; hostname") == "L\ndesk-07\n"
    assert card.inside(f"nmcli -g GENERAL.CONNECTION device show {INTERFACE}") == "bench\n"
    effective = card.inside("sshd -T | grep -E '^(passwordauth|kbdinter|permitroot)'").splitlines()
    assert [line.split()[1] for line in effective] == ["no", "no", "no"]
    clock = card.inside("systemd-analyze cat-config systemd/timesyncd.conf")
    assert f"\nNTP={_network(bench_hosts).machine}\n" in clock
    seen = roambench("fleet", "provision", bench, "--dry-run")
    assert seen.code == 0, seen
    assert seen.rows()["desk-07"]["reason"] == ""

    _joins_a_wifi_of_any_name(card, bench_hosts, shipped, tmp_path)


@pytest.mark.slow  # its root is made of another flavour
def test_a_card_of_trixie_becomes_a_host_by_a_real_cloud_init(
    seeded_card: FreshCard, bench_hosts: BenchHosts, tmp_path: Path
):
    """By Debian 12's cloud-init, netplan and NetworkManager; then netplan reads a Wi-Fi of any name."""
    shipped = tmp_path / "shipped"
    shutil.copytree(seeded_card.boot, shipped)
    bench = _bench(tmp_path, seeded_card.address, bench_hosts, _CABLE)
    made = roambench("fleet", "image", bench, "--boot", seeded_card.boot)
    assert made.code == 0, made
    seeded_card.port = 2207
    seeded_card.start(None)
    # systemd's presets enable systemd-networkd, too, whose units wait two minutes for links that it has not.
    seeded_card.wait(240.0)
    told = seeded_card.inside(
        "cloud-init status --wait; cloud-init schema -c /boot/firmware/user-data; hostname"
    )
    assert "status: done" in told
    assert "Valid cloud-config" in told
    assert told.endswith("\ndesk-07\n")
    assert (
        seeded_card.inside("passwd --status lab-7 | cut -d' ' -f2; cat /etc/timezone")
        == "L\nAsia/Kathmandu\n"
    )
    seen = roambench("fleet", "provision", bench, "--dry-run")
    assert seen.code == 0, seen

    bench = _bench(tmp_path, seeded_card.address, bench_hosts, _RADIO)
    (tmp_path / "passphrase").write_text(f"{_PASSPHRASE}\n")
    (tmp_path / "passphrase").chmod(0o600)
    made = roambench("fleet", "image", bench, "--boot", shipped, "-o", tmp_path / "cards")
    assert made.code == 0, made
    text = (tmp_path / "cards/desk-07/network-config").read_text()
    (seeded_card.boot / "radio.yaml").write_text(
        text.replace("version: 2", "version: 2\n  renderer: NetworkManager")
    )
    _networkmanager_reads_the_wifi(seeded_card, _NETPLAN)


def test_a_card_is_written_on_a_real_fat(bench_hosts: BenchHosts, tmp_path: Path):
    """One that refuses chmod, as mounted by a program (fusefat), and read by another (mtools)."""
    fat, boot = tmp_path / "bootfs.fat", tmp_path / "bootfs"
    with fat.open("wb") as file:
        file.truncate(64 << 20)
    do("mkfs.vfat", "-F", "32", fat)
    boot.mkdir()
    with subprocess.Popen(["fusefat", "-f", "-o", "rw+", fat, boot]) as mounting:
        while not boot.is_mount():
            assert mounting.poll() is None
            time.sleep(0.01)
        try:
            ship(boot)
            bench = _bench(tmp_path, bench_hosts.address("pi1"), bench_hosts, _CABLE)
            for said in ("wrote firstrun.sh, cmdline.txt", "nothing to change"):
                made = roambench("fleet", "image", bench, "--boot", boot)
                assert made.code == 0, made
                assert said in made.out
        finally:
            do("umount", boot)
    # Written out and closed only when the program has ended, which umount does not wait for.
    do("fsck.vfat", "-n", fat)
    assert do("mtype", "-i", fat, "::cmdline.txt").startswith(
        f"{CMDLINE} cgroup_enable=memory cfg80211.ieee80211_regdom=CH systemd.run="
    )
    assert do("mtype", "-i", fat, "::firstrun.sh").endswith("\nsync\nexit 0\n")


def _joins_a_wifi_of_any_name(
    card: FreshCard, bench_hosts: BenchHosts, shipped: Path, tmp_path: Path
) -> None:
    """As far as it goes without a radio: NetworkManager and wpa_passphrase read it as it was said."""
    bench = _bench(tmp_path, card.address, bench_hosts, _RADIO)
    (tmp_path / "passphrase").write_text(f"{_PASSPHRASE}\n")
    (tmp_path / "passphrase").chmod(0o600)
    made = roambench("fleet", "image", bench, "--boot", shipped, "-o", tmp_path / "cards")
    assert made.code == 0, made
    script = tmp_path / "cards/desk-07/firstrun.sh"
    assert _PASSPHRASE not in script.read_text()
    do("shellcheck", script)
    shutil.copy(script, card.boot)
    (card.boot / script.name).chmod(0o755)
    _networkmanager_reads_the_wifi(card, "/boot/firmware/firstrun.sh")

    told = (card.boot / "firstrun.log").read_text()
    assert [line for line in told.splitlines() if "FAILED" in line] == ["FAILED (1): radio"]  # there is none
    assert "wifi.powersave=2" in card.inside("NetworkManager --print-config")


def _networkmanager_reads_the_wifi(card: FreshCard, script: str) -> None:
    """As wpa_passphrase has its key, after `script` has laid the connection "bench" where it belongs."""
    asked = "802-11-wireless.ssid,802-11-wireless.hidden,802-11-wireless-security.psk"
    show = f"nmcli connection reload; nmcli -s -e no -g {asked} connection show bench"
    ssid, hidden, psk = card.inside(f"{script}\n{show}").splitlines()
    assert (ssid, hidden) == (_SSID, "yes")
    words = f"{shlex.quote(_SSID)} {shlex.quote(_PASSPHRASE)}"
    assert f"\n\tpsk={psk}\n" in card.inside(f"wpa_passphrase {words}")


def _bench(folder: Path, address: str, hosts: BenchHosts, more: str) -> Path:
    machine = _network(hosts).machine
    values = {
        "MACHINE": machine,
        "SUBNET": re.sub(r"\d+$", "0/24", machine),
        "KEY": str(hosts.key),
        "ADDRESS": address,
        "SSID": json.dumps(_SSID),
    }
    path = folder / "bench.toml"
    path.write_text(re.sub("[A-Z]{3,}", lambda word: values[word[0]], f"{_BENCH}{more}"))
    return path


def _network(hosts: BenchHosts) -> Network:
    return Network(int(hosts.folder.name))
