#!/bin/sh
# Installs what tests start on loopback: InfluxDB 1.6, VictoriaMetrics, an SSH server, an SNMP agent, an
# MQTT broker and a browser, what talks to power switches, what reads a PDF, what packs traces, and what writes down a
# program's system calls, as Debian packages them. Needs root; without it this only tells which tests will be skipped.
set -eu
PATH="$PATH:/usr/sbin"
missing=""
command -v influxd >/dev/null || missing="influxdb influxdb-client"
command -v victoria-metrics >/dev/null || missing="$missing victoria-metrics"
[ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
command -v strace >/dev/null || missing="$missing strace"
command -v snmpd >/dev/null || missing="$missing snmpd"
command -v snmpget >/dev/null || missing="$missing snmp"
command -v uhubctl >/dev/null || missing="$missing uhubctl"
command -v pdffonts >/dev/null || missing="$missing poppler-utils"
command -v mosquitto >/dev/null || missing="$missing mosquitto"
command -v curl >/dev/null || missing="$missing curl"
command -v zip >/dev/null || missing="$missing zip"
command -v xz >/dev/null || missing="$missing xz-utils"
command -v bzip2 >/dev/null || missing="$missing bzip2"
# shellcheck disable=SC2086
sh "$(dirname "$0")/install_packages.sh" "tests against real servers" $missing
# Any Chromium will do, and not every distribution calls its own so.
for browser in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$browser" >/dev/null && exit 0
done
sh "$(dirname "$0")/install_packages.sh" "tests of pages in a browser" chromium ||
    echo "tests of pages in a browser will be skipped: chromium cannot be installed here"
