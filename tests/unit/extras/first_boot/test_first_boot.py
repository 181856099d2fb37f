"""What `fleet image` writes on a card, and what it refuses to write on."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from benches import bench_of
from roambench.cli.main import main
from roambench.contract.errors import ConfigError
from roambench.extras.first_boot.cmdline import MEMORY_LIMITS, with_words
from roambench.extras.first_boot.settings import PASSPHRASE_VARIABLE, pre_shared_key
from ssh_server import make_key

#: As pi-gen leaves them (bookworm-arm64 d7a31c6, arm64), but for comments of config.txt.
_ISSUE = (
    "Raspberry Pi reference 2026-04-13\n"
    "Generated using pi-gen, https://github.com/RPi-Distro/pi-gen, d7a31c6, stage2\n"
)
_CONFIG = "dtparam=audio=on\nauto_initramfs=1\ndtoverlay=vc4-kms-v3d\narm_64bit=1\n[all]\n"
_PLAIN = (
    "console=serial0,115200 console=tty1 root=PARTUUID=4e639091-02 rootfstype=ext4 fsck.repair=yes rootwait"
)
_BOOKWORM = f"{_PLAIN} quiet init=/usr/lib/raspberrypi-sys-mods/firstboot"
_SEED = {
    "user-data": "#cloud-config\n\n# This is the user-data configuration file.\n#hostname: raspberrypi\n",
    "network-config": "# netplan-compatible\n#network:\n#  version: 2\n",
    "meta-data": "# meta-data\ndsmode: local\n\n# unique\ninstance_id: rpios-image\n",
}
_SSID = 'the "lab"\\ $(x) ü'
_PASSPHRASE = "correct $(horse) 'battery'"
_HOSTS = """
[defaults]
ssh_key = "key"
meter.driver = "none"
[defaults.card]
ssid = 'the "lab"\\ $(x) ü'
country = "CH"
passphrase_file = "wifi"
subnet = "192.168.50.0/24"
gateway = "192.168.50.1"
dns = "192.168.50.2"
timezone = "Europe/Zurich"
[[hosts]]
name = "pi-[01:03]"
address = "192.168.50.[101:103]"
"""


def _card(folder: Path, cmdline: str = _BOOKWORM, **files: str) -> Path:
    folder.mkdir()
    texts = {"issue.txt": _ISSUE, "config.txt": _CONFIG, "cmdline.txt": f"{cmdline}\n", **files}
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    (tmp_path / "wifi").write_text(f"\ufeff{_PASSPHRASE}\r\n")  # as an editor of Windows saves it
    (tmp_path / "wifi").chmod(0o600)
    return bench_of(tmp_path, _HOSTS).file


def _call(*words: object) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "image", *map(str, words)])
    return ended.value.code


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("passphrase", "ssid", "key"),
    [  # IEEE 802.11i-2004, H.4.1
        ("password", "IEEE", "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"),
        (
            "ThisIsAPassword",
            "ThisIsASSID",
            "0dc0d6eb90555ed6419756b9a15ec3e3209b63df707dd508d14581f8982721af",
        ),
        ("a" * 32, "Z" * 32, "becb93866bb8c3832cb777c2f559807c8c59afcb6eae734885001300a981cc62"),
        ("AB" * 32, "any", "ab" * 32),
    ],
)
def test_the_key_of_a_network_is_that_of_the_standard(passphrase: str, ssid: str, key: str):
    assert pre_shared_key(ssid, passphrase) == key


def test_a_card_gets_a_script_and_a_command_line_once(bench: Path, tmp_path: Path, capsys):
    boot = _card(tmp_path / "boot")
    assert _call(bench, "--boot", boot, "--only", "pi-02") == 0
    assert "pi-02: Bookworm" in capsys.readouterr().out
    made = _files(boot)
    assert sorted(made) == ["cmdline.txt", "config.txt", "firstrun.sh", "issue.txt"]
    assert made["cmdline.txt"].decode() == (
        f"{_BOOKWORM} cgroup_enable=memory cfg80211.ieee80211_regdom=CH "
        "systemd.run=/boot/firmware/firstrun.sh "
        "systemd.run_success_action=reboot systemd.unit=kernel-command-line.target\n"
    )
    script = made["firstrun.sh"].decode("ascii")
    assert "address1=192.168.50.102/24,192.168.50.1\ndns=192.168.50.2;\n" in script
    assert f"psk={pre_shared_key(_SSID, _PASSPHRASE)}\n" in script
    assert "horse" not in script
    for shell in ("sh", "dash", "bash"):
        subprocess.run([shell, "-n", str(boot / "firstrun.sh")], check=True)
    assert _call(bench, "--boot", boot, "--only", "pi-02") == 0
    assert "nothing to change" in capsys.readouterr().out
    assert _files(boot) == made


def test_a_board_with_a_power_sensor_gets_the_bus_of_it_in_config_txt(bench: Path, tmp_path: Path, capsys):
    text = bench.read_text().replace(
        'meter.driver = "none"', 'meter = { driver = "hwmon", i2c = "ina226@1-0040" }'
    )
    bench.write_text(text)
    for boot in (_card(tmp_path / "boot"), _card(tmp_path / "trixie", _PLAIN, **_SEED)):
        assert _call(bench, "--boot", boot, "--only", "pi-02") == 0
        config = (boot / "config.txt").read_text()
        assert config == f"{_CONFIG}\n# roambench: the bus of the power sensor\n[all]\ndtparam=i2c_arm=on\n"
        capsys.readouterr()
        assert _call(bench, "--boot", boot, "--only", "pi-02") == 0
        assert "nothing to change" in capsys.readouterr().out


def test_the_initramfs_of_bookworm_would_rewrite_neither_the_script_nor_the_command_line(
    bench: Path, tmp_path: Path
):
    """raspberrypi-sys-mods' imager_fixup looks for this in the command line, and cuts a script from that."""
    boot = _card(tmp_path / "boot")
    assert _call(bench, "--boot", boot, "--only", "pi-02") == 0
    assert not re.search(r"systemd\.run=/boot/firstrun\.sh", (boot / "cmdline.txt").read_text())
    lines = (boot / "firstrun.sh").read_text().splitlines()
    assert [line for line in lines if re.search(r"rm.*firstrun\.sh$", line)] == [lines[-3]]


def test_an_edited_command_line_keeps_its_words_and_another_country_takes_the_place_of_one():
    line = 'a=1 cfg80211.ieee80211_regdom=GB  quoted="two  blanks" quiet'
    once = with_words(line, ("cfg80211.ieee80211_regdom=CH", "systemd.unit=x"))
    assert once == 'a=1  quoted="two  blanks" quiet cfg80211.ieee80211_regdom=CH systemd.unit=x'
    assert with_words(once, ("cfg80211.ieee80211_regdom=CH", "systemd.unit=x")) == once


def test_the_kernel_limits_memory_and_keeps_the_other_controllers_of_an_edited_line():
    once = with_words("a=1 cgroup_enable=cpuset", (MEMORY_LIMITS,))
    assert once == "a=1 cgroup_enable=cpuset cgroup_enable=memory"
    assert with_words(once, (MEMORY_LIMITS,)) == once


def test_a_dry_run_writes_nothing_and_shows_everything_but_the_key(bench: Path, tmp_path: Path, capsys):
    boot = _card(tmp_path / "boot")
    before = _files(boot)
    assert _call(bench, "--boot", boot, "--only", "pi-01", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "pi-01: Bookworm" in shown
    assert "imager_custom" in shown
    assert "psk=(the key)" in shown
    assert _files(boot) == before


def test_a_folder_for_each_host_to_copy_from_is_its_owner_s_alone(bench: Path, tmp_path: Path, capsys):
    boot = _card(tmp_path / "boot")
    before = _files(boot)
    assert _call(bench, "--boot", boot, "-o", tmp_path / "cards", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["host"], row["release"], row["state"]) for row in rows] == [
        (f"pi-0{n}", "Bookworm", "changed") for n in (1, 2, 3)
    ]
    assert _files(boot) == before
    for n in (1, 2, 3):
        folder = tmp_path / f"cards/pi-0{n}"
        assert sorted(_files(folder)) == ["cmdline.txt", "firstrun.sh"]
        assert f"set_hostname pi-0{n}" in (folder / "firstrun.sh").read_text()
        assert (folder / "firstrun.sh").stat().st_mode & 0o777 == 0o600
    assert _call(bench, "--boot", boot) == 2
    assert "--only: expected one host for one card, got 3" in capsys.readouterr().err


def test_a_card_of_trixie_gets_what_cloud_init_reads(bench: Path, tmp_path: Path):
    boot = _card(tmp_path / "boot", f"{_PLAIN} resize", **_SEED)
    assert _call(bench, "--boot", boot, "--only", "pi-02") == 0
    made = _files(boot)
    meta = yaml.safe_load(made["meta-data"])
    assert meta["instance-id"].startswith("roambench-pi-02-")
    assert made["cmdline.txt"].decode() == (
        f"{_PLAIN} resize cgroup_enable=memory cfg80211.ieee80211_regdom=CH "
        f"ds=nocloud;i={meta['instance-id']}\n"
    )
    wlan0 = yaml.safe_load(made["network-config"])["network"]["wifis"]["wlan0"]
    assert wlan0 == {
        "regulatory-domain": "CH",
        "optional": True,
        "dhcp4": False,
        "dhcp6": True,
        "addresses": ["192.168.50.102/24"],
        "routes": [{"to": "default", "via": "192.168.50.1"}],
        "nameservers": {"addresses": ["192.168.50.2"]},
        "access-points": {_SSID: {"password": pre_shared_key(_SSID, _PASSPHRASE)}},
    }
    user = yaml.safe_load(made["user-data"])
    assert (user["hostname"], user["user"]["name"], user["user"]["lock_passwd"]) == ("pi-02", "pi", True)
    key = (tmp_path / "key.pub").read_text().split()[:2]
    assert user["user"]["ssh_authorized_keys"] == [" ".join(key)]
    calls = [" ".join(words) for words in user["runcmd"]]
    socket, server = "systemctl disable --now ssh.socket", "systemctl restart ssh"
    assert calls.index(socket) < calls.index(server)  # or systemd's presets have one listen at port 22
    assert {file["path"]: file["content"] for file in user["write_files"]}[
        "/etc/systemd/timesyncd.conf.d/bench.conf"
    ] == "[Time]\nNTP=10.36.0.1\n"
    assert _call(bench, "--boot", boot, "--only", "pi-02") == 0
    assert _files(boot) == made
    assert _call(bench, "--boot", boot, "--only", "pi-03") == 0
    other = yaml.safe_load((boot / "meta-data").read_text())["instance-id"]
    assert other != meta["instance-id"]
    assert (boot / "cmdline.txt").read_text().count("ds=nocloud") == 1


_IPV6_HOST = """
[[hosts]]
name = "a"
address = "fd78::aB"
interface = "eth0"
ssh_key = "key"
meter.driver = "none"
card = { subnet = "fd78::/64", gateway = "GATEWAY", dns = "10.0.0.2" }
"""


@pytest.mark.parametrize("gateway", ["fd78::1", "fe80::1"])
def test_a_host_may_have_a_fixed_address_of_ipv6(gateway: str, bench: Path, tmp_path: Path):
    file = bench_of(tmp_path, _IPV6_HOST.replace("GATEWAY", gateway)).file
    bookworm, trixie = _card(tmp_path / "boot"), _card(tmp_path / "trixie", f"{_PLAIN} resize", **_SEED)
    for boot in (bookworm, trixie):
        assert _call(file, "--boot", boot) == 0
    keyfile = f"[ipv4]\nmethod=auto\ndns=10.0.0.2;\n[ipv6]\nmethod=manual\naddress1=fd78::aB/64,{gateway}\n"
    assert keyfile in (bookworm / "firstrun.sh").read_text()
    eth0 = yaml.safe_load((trixie / "network-config").read_text())["network"]["ethernets"]["eth0"]
    assert eth0 == {
        "optional": True,
        "dhcp4": True,
        "dhcp6": False,
        "addresses": ["fd78::aB/64"],
        "routes": [{"to": "default", "via": gateway}],
        "nameservers": {"addresses": ["10.0.0.2"]},
    }


@pytest.mark.parametrize("subnet", ["", '\nsubnet = "192.168.50.0/24"'])
def test_a_router_gives_addresses_of_both_families_but_where_one_is_fixed(
    subnet: str, bench: Path, tmp_path: Path
):
    text = bench.read_text()
    bench.write_text(re.sub('\n(subnet|gateway|dns) = ".*"', "", text).replace("[[", f"{subnet}\n[[", 1))
    bookworm, trixie = _card(tmp_path / "boot"), _card(tmp_path / "trixie", f"{_PLAIN} resize", **_SEED)
    for boot in (bookworm, trixie):
        assert _call(bench, "--boot", boot, "--only", "pi-02") == 0
    fixed = "manual\naddress1=192.168.50.102/24" if subnet else "auto"
    assert f"[ipv4]\nmethod={fixed}\n[ipv6]\nmethod=auto\n" in (bookworm / "firstrun.sh").read_text()
    network = yaml.safe_load((trixie / "network-config").read_text())["network"]
    assert network["ethernets"]["eth0"] == {"dhcp4": True, "dhcp6": True, "optional": True}
    wlan0 = network["wifis"]["wlan0"]
    assert (wlan0["dhcp4"], wlan0["dhcp6"]) == (not subnet, True)


@pytest.mark.parametrize(
    ("cmdline", "files", "said"),
    [
        (_PLAIN, {}, "cmdline.txt: expected init=.*firstboot, as Bookworm has before its first boot"),
        (_BOOKWORM, {"user-data": "#cloud-config\n"}, "boot: of Trixie expected user-data, network-config"),
        (_BOOKWORM, {"custom.toml": "config_version = 1\n"}, "custom.toml: is there, and not ours: flash"),
        (_BOOKWORM, {"firstrun.sh": "#!/bin/sh\n"}, "firstrun.sh: is there, and not ours: flash"),
        (
            f"{_PLAIN} resize",
            _SEED | {"user-data": "#cloud-config\nhostname: mine\n"},
            "user-data: is there, and not ours: flash",
        ),
        (_BOOKWORM, {"issue.txt": "Ubuntu\n"}, "issue.txt: expected that of an image of Raspberry Pi OS"),
        (_BOOKWORM, {"config.txt": "arm_64bit=1\n"}, "config.txt: expected auto_initramfs=1"),  # Bullseye
        (_BOOKWORM, {"config.txt": "auto_initramfs=1\n"}, "config.txt: expected arm_64bit=1: flash the 64"),
        (f"{_BOOKWORM}\nmore=words", {}, "cmdline.txt: expected one line, got 2"),
        ("ü", {}, "cmdline.txt: not ASCII text"),
    ],
)
def test_what_it_cannot_tell_or_others_have_customised_is_refused_and_left_alone(
    cmdline: str, files: dict[str, str], said: str, bench: Path, tmp_path: Path, capsys
):
    boot = _card(tmp_path / "boot", cmdline, **files)
    before = _files(boot)
    assert _call(bench, "--boot", boot, "--only", "pi-01") == 2
    assert re.search(said, capsys.readouterr().err)
    assert _files(boot) == before


def test_a_folder_that_is_no_card_is_said_to_be_none(bench: Path, tmp_path: Path, capsys):
    assert _call(bench, "--boot", tmp_path, "--only", "pi-01") == 2
    assert "issue.txt: cannot be read: No such file or directory" in capsys.readouterr().err


def test_all_that_a_card_lacks_is_told_at_once(tmp_path: Path, capsys):
    hosts = """
    [defaults]
    meter.driver = "none"
    [[hosts]]
    name = "a.b"
    address = "10.0.0.1"
    ssh_user = "root"
    [[hosts]]
    name = "c"
    address = "10.0.0.2"
    ssh_key = "nowhere"
    card = { ssid = "lab", country = "CH" }
    """
    path = bench_of(tmp_path, hosts).file
    assert _call(path, "--boot", _card(tmp_path / "boot"), "-o", tmp_path / "cards") == 2
    told = capsys.readouterr().err
    for words in (
        "bench.toml: hosts: a.b: name: expected a host name",
        "bench.toml: hosts: a.b: ssh_user: expected a user other than root",
        "bench.toml: hosts: a.b: card.ssid: is missing",
        "bench.toml: hosts: c: ssh_key: no public key to let in",
        "bench.toml: hosts: c: card.passphrase_file: is missing, expected a file with the Wi-Fi's passphrase",
        f", or ${PASSPHRASE_VARIABLE}",
    ):
        assert words in told
    assert not (tmp_path / "cards").exists()


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (b"long enough\n", 0o640, "others may read it: chmod 600"),
        (b"short\n", 0o600, "expected 8 to 63 ASCII characters"),
        (b"two\nlines of it\n", 0o600, "expected 8 to 63 ASCII characters"),
        ("passwört".encode(), 0o600, "expected 8 to 63 ASCII characters"),
        (b"\xff" * 9, 0o600, "not text"),
    ],
)
def test_a_passphrase_that_cannot_be_one_is_not_quoted(
    content: bytes, mode: int, said: str, bench: Path, tmp_path: Path, capsys
):
    (tmp_path / "wifi").write_bytes(content)
    (tmp_path / "wifi").chmod(mode)
    assert _call(bench, "--boot", _card(tmp_path / "boot"), "--only", "pi-01") == 2
    told = capsys.readouterr().err
    assert f"card.passphrase_file: {tmp_path / 'wifi'}: {said}" in told
    assert "lines" not in told


def test_the_environment_s_passphrase_goes_before_the_file_s(
    bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    boot = _card(tmp_path / "boot")
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "another passphrase")
    assert _call(bench, "--boot", boot, "--only", "pi-01") == 0
    key = pre_shared_key(_SSID, "another passphrase")
    assert f"psk={key}\n" in (boot / "firstrun.sh").read_text()


def test_a_recorded_ssh_key_is_said_to_be_another_one_after_the_first_boot(
    bench: Path, tmp_path: Path, capsys
):
    known = tmp_path / ".bench/known_hosts"
    known.parent.mkdir()
    known.write_text(f"192.168.50.101 {(tmp_path / 'key.pub').read_text()}")
    boot = _card(tmp_path / "boot")
    assert _call(bench, "--boot", boot, "--only", "pi-01") == 0
    assert f"ssh-keygen -R 192.168.50.101 -f {known}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ('ssid = "a\\nb", country = "CH"', "card.ssid: expected a name of at most 32 bytes without control"),
        (
            'ssid = "ü2345678901234567890123456789012", country = "CH"',
            "card.ssid: expected a name of at most 32",
        ),
        ('ssid = "a", country = "ch"', "card.country: expected a country's two capital letters"),
        ('ssid = "a"', "card.country: is missing"),
        ('subnet = "10.0.0.1/24"', "card.subnet: expected a network as 192.168.50.0/24 or fd78::/64"),
        ('subnet = "10.1.0.0/24"', "hosts: a: address: expected an address of card.subnet 10.1.0.0/24"),
        ('subnet = "10.0.0.4/30"', "hosts: a: address: expected an address of card.subnet 10.0.0.4/30"),
        ('subnet = "10.0.0.0/24", gateway = "10.0.1.1"', "card.gateway: expected an address of card.subnet"),
        ('subnet = "10.0.0.0/24", gateway = "fe80::1"', "card.gateway: expected an address of card.subnet"),
        ('subnet = "fd78::/64"', "hosts: a: address: expected an address of card.subnet fd78::/64"),
        ('subnet = "fd78::1/64"', "card.subnet: expected a network"),
        ('gateway = "10.0.0.1"', "card.gateway: expected none without a subnet"),
        ('dns = "one.one"', "card.dns: expected an IP address"),
        ('timezone = "Europe/Zuerich"', "card.timezone: expected a time zone as Europe/Zurich"),
        ('timezone = "../../etc/passwd"', "card.timezone: expected a time zone as Europe/Zurich"),
        ('passphrase = "x"', "card.passphrase: unknown key, did you mean passphrase_file?"),
    ],
)
def test_a_card_s_table_is_checked_like_every_other(card: str, said: str, tmp_path: Path):
    hosts = f'[[hosts]]\nname = "a"\naddress = "10.0.0.7"\nmeter.driver = "none"\ncard = {{ {card} }}'
    with pytest.raises(ConfigError) as raised:
        bench_of(tmp_path, hosts)
    assert any(said in problem for problem in raised.value.problems), raised.value.problems


def test_a_wifi_over_a_cable_is_a_mistake(tmp_path: Path):
    hosts = (
        '[[hosts]]\nname = "a"\naddress = "10.0.0.7"\ninterface = "eth0"\nmeter.driver = "none"\n'
        'card = { ssid = "lab", country = "CH" }'
    )
    with pytest.raises(ConfigError, match=r"card\.ssid: expected none with the interface 'eth0', a cable"):
        bench_of(tmp_path, hosts)
