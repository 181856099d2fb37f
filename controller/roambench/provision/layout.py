"""The folders and files of provisioning on a host."""

from __future__ import annotations

from typing import Final

USER: Final = "roambench"
UNIT: Final = "roambench-agent.service"
BOARD_UNIT: Final = "roambench-board.service"

OPT: Final = "/opt/roambench"
BUILDS: Final = f"{OPT}/builds"  # BUILDS/HASH/venv, and beside it build.json once it is whole
WHEELS: Final = f"{OPT}/wheels"  # WHEELS/HASH: a wheelhouse, there only if it is whole
PROGRAMS: Final = f"{OPT}/programs"  # PROGRAMS/DIGEST: a program; PROGRAMS/env-HASH: what it imports
CURRENT: Final = f"{OPT}/current"  # -> builds/HASH/venv
PREVIOUS: Final = f"{OPT}/previous"

ETC: Final = "/etc/roambench"
SETTINGS: Final = f"{ETC}/agent.json"
IDENTITY: Final = f"{ETC}/identity"
TOKEN: Final = f"{ETC}/influx-token"
CLAIM: Final = f"{ETC}/claim.json"  # which bench has the board
PACKAGES_ADDED: Final = f"{ETC}/packages-added"  # by provisioning, one a line
PACKAGES_REMOVED: Final = f"{ETC}/packages-removed"

STATE: Final = "/var/lib/roambench"
RUN: Final = "/run/roambench"
CTL_SOCKET: Final = f"{RUN}/ctl.sock"
LOCK: Final = "/run/roambench-provision.lock"  # an installation goes on when its SSH connection is lost

UNIT_FILE: Final = f"/etc/systemd/system/{UNIT}"
#: What a build is started by and with: kept beside the build while another one runs.
RUN_WITH: Final = (SETTINGS, UNIT_FILE)
BOARD_UNIT_FILE: Final = f"/etc/systemd/system/{BOARD_UNIT}"
BOARD_SCRIPT: Final = f"{OPT}/board.sh"
UDEV_RULES: Final = "/etc/udev/rules.d/70-roambench-meter.rules"
SENSOR_RULES: Final = "/etc/udev/rules.d/71-roambench-sensor.rules"
#: Raspberry Pi OS's, and what the lines that are ours begin with: this one and the two behind it.
BOOT_CONFIG: Final = "/boot/firmware/config.txt"
BOOT_MARK: Final = "# roambench: the bus of the power sensor"
CHRONY_CONF: Final = "/etc/chrony/roambench.conf"
CHRONY_OPTIONS: Final = "/etc/chrony/roambench.env"
CHRONY_DROP_IN: Final = "/etc/systemd/system/chrony.service.d/roambench.conf"
TIMESYNCD_CONF: Final = "/etc/systemd/timesyncd.conf.d/roambench.conf"
TIME_WAIT_DROP_IN: Final = "/etc/systemd/system/systemd-time-wait-sync.service.d/roambench.conf"
JOURNAL_CONF: Final = "/etc/systemd/journald.conf.d/roambench.conf"
NETWORK_CONF: Final = "/etc/NetworkManager/conf.d/roambench.conf"

#: Everything that provisioning writes; `fleet unprovision` leaves none of it.
OWN_FILES: Final = (
    UNIT_FILE,
    BOARD_UNIT_FILE,
    UDEV_RULES,
    SENSOR_RULES,
    CHRONY_CONF,
    CHRONY_OPTIONS,
    CHRONY_DROP_IN,
    TIMESYNCD_CONF,
    TIME_WAIT_DROP_IN,
    JOURNAL_CONF,
    NETWORK_CONF,
)
#: Those in folders that no package brings: they are made for them, and go with them.
DROP_INS: Final = (CHRONY_DROP_IN, TIMESYNCD_CONF, TIME_WAIT_DROP_IN, JOURNAL_CONF)
OWN_FOLDERS: Final = (OPT, ETC, STATE)
