#!/bin/sh
# fitting_python.sh [PYTHON]: ends with a sentence where PYTHON cannot make the environment that roambench needs.
if [ -z "${1:-}" ] || ! "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'; then
    found=$("${1:-python3}" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo none)
    echo "roambench needs Python 3.11 to 3.14, and ${1:-python3} is $found: make setup PYTHON=/path/to/python3.12." \
        "Ubuntu 22.04 has one beside: sudo apt-get install python3.11 python3.11-venv, then the same command." >&2
    exit 1
fi
"$1" -c 'import ensurepip' 2>/dev/null && exit 0
package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
if [ "$(id -u)" = 0 ]; then
    apt-get update -qq && apt-get install -y -qq "$package"
else
    echo "$package is missing: sudo apt-get install $package" >&2
    exit 1
fi
