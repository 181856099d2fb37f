#!/bin/sh
# Installs what hosts in containers are made with, as Debian and Ubuntu package it. Needs root; without it
# this only tells what is missing. `install_tools.sh arm64` adds what runs an aarch64 host on another processor.
set -eu
PATH="$PATH:/usr/sbin:/sbin"
missing=""
want() { command -v "$1" >/dev/null || missing="$missing $2"; }
want debootstrap debootstrap
want systemd-nspawn systemd-container
want nsenter util-linux
want ip iproute2
want losetup mount
want mkfs.ext4 e2fsprogs
want ssh-keygen openssh-client
[ "${1:-}" != arm64 ] || want qemu-aarch64-static qemu-user-static
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "tests on hosts in containers will be skipped; for them: sudo apt-get install$missing"
    exit 0
fi
# No service may start by being installed here: this file says so while the installation lasts.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 $missing
