#!/bin/sh
# install_packages.sh TESTS PACKAGE...: installs Debian packages; without root it only says that TESTS will be skipped.
set -eu
tests=$1
shift
[ $# != 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "$tests will be skipped; for them: sudo apt-get install $*"
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
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
