"""Facts of a host, for tests that change some."""

from __future__ import annotations

from roambench.provision.facts import BoardFacts, Facts

#: A card of Raspberry Pi OS as it was flashed.
FRESH = Facts(
    machine="aarch64",
    bits=64,
    os_id="debian",
    os_version="12",
    python="3.11.2",
    is_root=True,
    init="systemd",
    container="",
    model="Raspberry Pi 3 Model B Plus Rev 1.3",
    memory_bytes=10**9,
    disk_free_bytes=4 * 10**9,
    packages={"systemd-timesyncd": "252", "iw": "5.19"},
    user_groups=None,
    groups=("dialout", "video"),
    files={},
    units={},
    current="",
    previous="",
    builds={},
    wheelhouses=(),
    certificate_pem="",
    authority_pem="",
    network_manager=True,
    vcgencmd="/usr/bin/vcgencmd",
    board=BoardFacts(("ondemand",), {"ACT": "mmc0"}, {}, {"wlan0": "on"}, ("/var/swap",), {"rfkill0": "0"}),
    serials={},
)
