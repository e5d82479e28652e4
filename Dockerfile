# The container of groundlab: locked packages, the repository at /opt/groundlab, nothing fetched at run time.
#
#   nox -s container                          # from the committed tree, with labels, and tried with the network off
#   git archive HEAD | docker build -t groundlab --build-arg COMMIT=$(git rev-parse HEAD) \
#     --build-arg LOCK=$(git show HEAD:pylock.toml | sha256sum | cut -d ' ' -f 1) -    # by hand
#   mkdir -p out && chmod a+w out             # before Docker makes it root's
#   docker run --rm -v "$PWD/out:/results" groundlab nox -s smoke -- --results /results
#   docker run --rm -v "$PWD/out:/results" -p 127.0.0.1:8888:8888 groundlab \
#     sh -c 'cp -ru notebooks /results && exec jupyter lab /results/notebooks --ip 0.0.0.0 --no-browser'
#
# With CUDA 13 about 6.5 GB (the sum of unpacked wheels; no such image was measured). TORCH=cpu leaves NVIDIA's libraries out,
# and for the driver of CUDA 12: --build-arg TORCH=index --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu126
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
FROM ${BASE}

ARG TORCH=cuda
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# set, it makes pip write .pyc files without times; as $(git log -1 --format=%ct) it also dates the image
ARG SOURCE_DATE_EPOCH=315532800
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
 && useradd --create-home groundlab && mkdir -p /results .numba results/.runs results/.scratch \
 && chown -R groundlab /results .numba results/.runs results/.scratch notebooks
USER groundlab
RUN NUMBA_CACHE_DIR=/opt/groundlab/.numba requirements/image-compile.sh

ARG BASE
ARG BASE_DIGEST=sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
ARG URL=unknown
ENV GROUNDLAB_COMMIT=${COMMIT} HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
LABEL org.opencontainers.image.title=groundlab \
      org.opencontainers.image.licenses=MIT \
      org.opencontainers.image.version=1.1.0 \
      org.opencontainers.image.source=${URL} \
      org.opencontainers.image.revision=${COMMIT} \
      org.opencontainers.image.base.name=${BASE} \
      org.opencontainers.image.base.digest=${BASE_DIGEST} \
      groundlab.lock=${LOCK} \
      groundlab.torch=${TORCH}
VOLUME /results
ENTRYPOINT ["/opt/groundlab/requirements/image-entry.sh"]
CMD ["--help"]
