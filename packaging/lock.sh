#!/bin/sh
# lock.sh UV [OPTION...]: writes the digests of all package files into locked.txt, docs.txt and boards.txt (`make lock`).
# locked.txt keeps its versions where they still fit; OPTION is uv's, for example --upgrade. boards.txt keeps those
# that people wrote into it. torch for x86-64 is in neither (docs/decisions/0010).
set -eu
cd "$(dirname "$0")/.."
uv=$1
shift
# Extras stay in the names: without them pip takes the newest release for coverage[toml], which has no digest here.
compiled() { "$uv" pip compile -q --generate-hashes --no-strip-extras --python-version 3.11 --no-annotate --no-header "$@"; }
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

[ ! -e locked.txt ] || cp locked.txt "$scratch/locked.txt"
compiled --extra controller --extra test -c constraints.txt -o "$scratch/locked.txt" "$@" pyproject.toml >/dev/null
{
    echo "# What \`make setup\` installs, but for torch: made by \`make lock\` from pyproject.toml and constraints.txt."
    awk '/^[^ ]/ { skip = /^(torch|triton|nvidia-|cuda-)/ } !skip' "$scratch/locked.txt"
} >"$scratch/new"
cp "$scratch/new" locked.txt

# What the site needs, in the versions of locked.txt where both name one.
[ ! -e docs.txt ] || cp docs.txt "$scratch/docs.txt"
sed -n 's/^\([a-z][^ ]*\).*/\1/p' locked.txt | sed 's/\[.*\]//' >"$scratch/installed.txt"
sed -n 's/^docs = \[\(.*\)\]$/\1/p' pyproject.toml | tr -d '"' | sed 's/, mk/\nmk/g' >"$scratch/docs.in"
compiled -c "$scratch/installed.txt" -o "$scratch/docs.txt" "$scratch/docs.in" >/dev/null
{
    echo "# What \`make docs\` installs: made by \`make lock\` from the extra docs, in the versions of locked.txt where both have one."
    cat "$scratch/docs.txt"
} >docs.txt

grep '^#' boards.txt >"$scratch/boards.txt"
sed -n 's/^\([a-z][^ ]*\).*/\1/p' boards.txt >"$scratch/pins.txt"
compiled --no-deps --python-platform aarch64-manylinux_2_36 "$scratch/pins.txt" >>"$scratch/boards.txt"
cp "$scratch/boards.txt" boards.txt
