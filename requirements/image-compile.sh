#!/bin/sh
# Compile, while an image is built, what its runs would otherwise compile first; into $NUMBA_CACHE_DIR. A hundred layouts
# step on several threads, two on one: different machine code. The second agent reads the text of BabyAI. The smoke
# reproduction compiles the rest (Crafter, loops of training), and an image in which a run of it fails is not made.
set -eu
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
export HF_HUB_OFFLINE=1 XDG_CACHE_HOME="$results/cache" # datasets that the smoke makes: nothing of it stays in the image
groundlab evaluate always --world SimpleDoorKey --layouts 0-99
groundlab evaluate zero-shot --world BabyAI-GoToLocalS8N4-v0 --layouts 0-1
groundlab reproduce --scale smoke --no-pages --results "$results"
