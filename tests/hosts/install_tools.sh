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
want shellcheck shellcheck
want mkfs.vfat dosfstools
want fusefat fusefat
want mtype mtools
[ "${1:-}" != arm64 ] || want qemu-aarch64-static qemu-user-static
# shellcheck disable=SC2086
sh "$(dirname "$0")/../install_packages.sh" "tests on hosts in containers" $missing
