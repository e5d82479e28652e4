#!/bin/sh
# Install the locked packages into an image's Python: requirements/image-install.sh cuda|cpu|index
# cuda: every package by its hash, torch from PyPI with NVIDIA's libraries. cpu: the same packages by their hashes
# without those libraries, and the CPU build of the locked torch from the index $TORCH_INDEX (it has no hash in the lock).
# index: as cpu, with the libraries that the index's torch asks for, e.g. of CUDA 12 (.../whl/cu126); they have no hash.
set -eu
lock=$(dirname "$0")/container.lock
case ${1:-} in
cuda)
  packages=$lock ;;
cpu | index)
  packages=$(mktemp)
  awk '/^[^ #]/ { kept = !/^(torch|triton|nvidia-|cuda-)/ } kept' "$lock" >"$packages" ;;
*)
  echo "usage: $0 cuda|cpu|index" >&2
  exit 2 ;;
esac
# What has no wheel is built by the locked setuptools: in isolation pip would fetch one that no hash names.
builder=$(mktemp)
awk '/^[^ #]/ { kept = /^setuptools==/ } kept' "$lock" >"$builder"
python3 -m pip install --require-hashes --no-deps -r "$builder"
python3 -m pip install --require-hashes --no-deps --no-build-isolation -r "$packages"
torch=$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' "$lock")
case $1 in
cpu) python3 -m pip install --no-deps --index-url "$TORCH_INDEX" "$torch" ;;
index) python3 -m pip install --index-url "$TORCH_INDEX" "$torch" ;;
esac
python3 -m pip check
