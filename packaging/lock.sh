#!/bin/sh
# lock.sh UV [OPTION...]: writes lock.txt, all packages of all Pythons and machines with the digests of all their files
# (`make lock`). It keeps its versions where these still fit; OPTION is uv's, for example --upgrade. CUDA's packages are
# not in it (docs/decisions/0010).
set -eu
uv=$(realpath "$1")
shift
cd "$(dirname "$0")"
# Extras stay in the names: without them pip takes the newest release for coverage[toml], which has no digest here.
"$uv" pip compile -q --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-header \
    --extra controller --extra test --extra docs --extra mlflow --extra wandb -o lock.txt "$@" ../pyproject.toml lock.in >/dev/null
{
    echo "# Made by \`make lock\` from pyproject.toml and lock.in. packaging/locked.py chooses from it."
    awk '/^[^ #]/ { skip = /^(triton|nvidia-|cuda-)/ } !skip && !/^# Made by/' lock.txt
} >lock.new
mv lock.new lock.txt
