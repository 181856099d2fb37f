#!/bin/sh
# lock.sh UV [OPTION...]: writes the digests of all package files into setup.txt, tests.txt, docs.txt and boards.txt of locks/
# (`make lock`). They keep their versions where these still fit; OPTION is uv's, for example --upgrade. boards.txt keeps
# those that people wrote into it. torch for x86-64 is in none of them (docs/decisions/0010).
set -eu
uv=$(realpath "$1")
shift
cd "$(dirname "$0")/locks"
project=../../pyproject.toml
# Extras stay in the names: without them pip takes the newest release for coverage[toml], which has no digest here.
compiled() { "$uv" pip compile -q --generate-hashes --no-strip-extras --python-version 3.11 --no-annotate --no-header "$@"; }
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

without_torch() { awk '/^[^ ]/ { skip = /^(torch|triton|nvidia-|cuda-)/ } !skip'; }
pinned() { sed -n 's/^\([a-z][^ ]*\).*/\1/p' "$@" | sed 's/\[.*\]//'; }

# All that tests need too, in one go; of these the versions of what runs without them.
cat setup.txt tests.txt >"$scratch/all.txt" 2>/dev/null || true
compiled --extra controller --extra test -c constraints.txt -o "$scratch/all.txt" "$@" "$project" >/dev/null
without_torch <"$scratch/all.txt" | pinned >"$scratch/installed.txt"
compiled --extra controller -c "$scratch/installed.txt" -o "$scratch/setup.txt" "$project" >/dev/null
{
    echo "# What \`make setup\` installs, but for torch: made by \`make lock\` from pyproject.toml and constraints.txt."
    without_torch <"$scratch/setup.txt"
} >setup.txt
{
    echo "# What \`make test\` installs beside setup.txt: made by \`make lock\` from the extra test."
    without_torch <"$scratch/all.txt" | awk -v locked=setup.txt '
        BEGIN { while ((getline line <locked) > 0) if (line ~ /^[a-z]/) { split(line, word, "=="); has[word[1]] = 1 } }
        /^[^ ]/ { split($0, word, "=="); skip = word[1] in has } !skip'
} >tests.txt

# What the site needs, in the versions of the other two where both name one.
[ ! -e docs.txt ] || cp docs.txt "$scratch/docs.txt"
sed -n 's/^docs = \[\(.*\)\]$/\1/p' "$project" | tr -d '"' | sed 's/, mk/\nmk/g' >"$scratch/docs.in"
compiled -c "$scratch/installed.txt" -o "$scratch/docs.txt" "$scratch/docs.in" >/dev/null
{
    echo "# What \`make docs\` installs: made by \`make lock\` from the extra docs, in the versions of setup.txt where both have one."
    cat "$scratch/docs.txt"
} >docs.txt

grep '^#' boards.txt >"$scratch/boards.txt"
sed -n 's/^\([a-z][^ ]*\).*/\1/p' boards.txt >"$scratch/pins.txt"
compiled --no-deps --python-platform aarch64-manylinux_2_36 "$scratch/pins.txt" >>"$scratch/boards.txt"
cp "$scratch/boards.txt" boards.txt
