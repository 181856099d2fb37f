#!/bin/sh
# Installs the servers that tests start on loopback: InfluxDB 1.6, VictoriaMetrics and an SSH server, as Debian
# and Ubuntu package them. Needs root; without it this only tells which tests will be skipped.
set -eu
PATH="$PATH:/usr/sbin"
missing=""
command -v influxd >/dev/null || missing="influxdb influxdb-client"
command -v victoria-metrics >/dev/null || missing="$missing victoria-metrics"
[ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "tests against real servers will be skipped; for them: sudo apt-get install $missing"
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
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
