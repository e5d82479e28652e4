#!/bin/sh
# Compile, while an image is built, what its runs would otherwise compile first; into $NUMBA_CACHE_DIR. A hundred layouts
# step on several threads, two on one: different machine code. The second agent reads the text of BabyAI.
set -eu
groundlab evaluate always --world SimpleDoorKey --layouts 0-99
HF_HUB_OFFLINE=1 groundlab evaluate zero-shot --world BabyAI-GoToLocalS8N4-v0 --layouts 0-1
