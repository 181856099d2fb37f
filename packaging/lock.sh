#!/bin/sh
# lock.sh UV [OPTION...]: writes the digests of all package files into locked.txt and boards.txt (`make lock`).
# locked.txt keeps its versions where they still fit; OPTION is uv's, for example --upgrade. boards.txt keeps those
# that people wrote into it. torch for x86-64 is in neither (docs/decisions/0010).
set -eu
cd "$(dirname "$0")/.."
uv=$1
shift
compiled() { "$uv" pip compile -q --generate-hashes --python-version 3.11 --no-annotate --no-header "$@"; }
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

[ ! -e locked.txt ] || cp locked.txt "$scratch/locked.txt"
compiled --extra controller --extra test -c constraints.txt -o "$scratch/locked.txt" "$@" pyproject.toml >/dev/null
{
    echo "# What \`make setup\` installs, but for torch: made by \`make lock\` from pyproject.toml and constraints.txt."
    awk '/^[^ ]/ { skip = /^(torch|triton|nvidia-|cuda-)/ } !skip' "$scratch/locked.txt"
} >"$scratch/new"
cp "$scratch/new" locked.txt

grep '^#' boards.txt >"$scratch/boards.txt"
sed -n 's/^\([a-z][^ ]*\).*/\1/p' boards.txt >"$scratch/pins.txt"
compiled --no-deps --python-platform aarch64-manylinux_2_36 "$scratch/pins.txt" >>"$scratch/boards.txt"
cp "$scratch/boards.txt" boards.txt
