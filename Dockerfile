# The container of groundlab: the pinned environment with the repository at /opt/groundlab.
#
#   docker build -t groundlab .
#   docker run --rm -v "$PWD/out:/results" groundlab reproduce --scale smoke --results /results
#
# TORCH_INDEX picks the build of torch: the CPU index (default, a small image), or
# https://download.pytorch.org/whl/cu130 for NVIDIA GPUs.
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
FROM ${BASE}

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV GROUNDLAB_ROOT=/opt/groundlab \
    NUMBA_CACHE_DIR=/opt/groundlab/.numba \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONNOUSERSITE=1 \
    PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/groundlab
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
RUN pip install -c requirements/constraints.txt --index-url ${TORCH_INDEX} torch \
 && pip install -c requirements/constraints.txt setuptools wheel

COPY . .
RUN pip install -c requirements/constraints.txt --no-build-isolation -e . \
 && useradd --create-home groundlab && mkdir -p /results .numba && chown -R groundlab /opt/groundlab /results
USER groundlab
# Compiles every kernel once, so that the first run on a laptop or a compute node does not.
RUN groundlab evaluate always --world SimpleDoorKey --layouts 0-99

# Only now: nothing is fetched at run time.
ENV HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
ENTRYPOINT ["groundlab"]
CMD ["--help"]
