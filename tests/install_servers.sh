#!/bin/sh
# Installs the servers that tests start on loopback: InfluxDB 1.6, VictoriaMetrics and an SSH server, as Debian
# and Ubuntu package them. Needs root; without it this only tells which tests will be skipped.
set -eu
PATH="$PATH:/usr/sbin"
missing=""
command -v influxd >/dev/null || missing="influxdb influxdb-client"
command -v victoria-metrics >/dev/null || missing="$missing victoria-metrics"
[ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
# shellcheck disable=SC2086
sh "$(dirname "$0")/install_packages.sh" "tests against real servers" $missing
