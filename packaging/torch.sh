#!/bin/sh
# torch.sh PIP [CUDA]: installs torch in the lock's version, without CUDA unless a second word is given, where
# locked.py leaves it out. Its builds without CUDA are on PyTorch's own index, or where pip is set up to look.
set -eu
pip=$1
[ "$(uname -m)" != aarch64 ] || exit 0
version=$(sed -n "s/^torch==\([^ ]*\) ; platform_machine != .*/\1/p" "$(dirname "$0")/lock.txt")
if [ -n "${2:-}" ]; then
    exec "$pip" install -q --no-compile --disable-pip-version-check "torch===$version"
fi
small() { "$pip" install -q --no-compile --disable-pip-version-check --no-deps "$@" "torch==$version+cpu"; }
if small 2>/dev/null || small --index-url https://download.pytorch.org/whl/cpu; then
    [ ! -e /proc/driver/nvidia/version ] ||
        echo "torch has no CUDA; for this machine's NVIDIA card (gigabytes): $pip install torch===$version"
else
    echo "torch $version without CUDA cannot be had (above): give the folder of its wheel, make setup" \
        "PIP_FIND_LINKS=FOLDER, or take the build with CUDA, gigabytes: make setup CUDA=1" >&2
    exit 1
fi
