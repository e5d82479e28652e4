# The container of groundlab: locked packages, the repository at /opt/groundlab, nothing fetched at run time.
#
#   nox -s container                          # from the committed tree, with labels, and tried with the network off
#   git archive HEAD | docker build --build-arg COMMIT=$(git rev-parse HEAD) -t groundlab -   # by hand (CUDA; about 9 GB)
#   mkdir out && chmod a+w out                # before Docker makes it root's
#   docker run --rm -v "$PWD/out:/results" groundlab reproduce --scale smoke --results /results
#
# TORCH=cpu builds without NVIDIA's libraries; TORCH=index takes torch and its libraries from TORCH_INDEX.
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
FROM ${BASE}

ARG TORCH=cuda
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV GROUNDLAB_ROOT=/opt/groundlab \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONNOUSERSITE=1 \
    PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /opt/groundlab
COPY pylock.toml .
COPY requirements requirements
RUN python3 requirements/install.py ${TORCH}

COPY . .
ARG COMMIT=unknown
ARG LOCK=unknown
RUN python3 -m pip install --no-deps --no-build-isolation --no-index -e . \
 && useradd --create-home groundlab && mkdir -p /results .numba && chown groundlab /results .numba
USER groundlab
RUN NUMBA_CACHE_DIR=/opt/groundlab/.numba requirements/image-compile.sh

ENV GROUNDLAB_COMMIT=${COMMIT} HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
LABEL org.opencontainers.image.title=groundlab \
      org.opencontainers.image.licenses=MIT \
      org.opencontainers.image.revision=${COMMIT} \
      groundlab.lock=${LOCK} \
      groundlab.torch=${TORCH}
VOLUME /results
ENTRYPOINT ["/opt/groundlab/requirements/image-entry.sh"]
CMD ["--help"]
