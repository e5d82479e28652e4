"""Runs of device_runs.py on tiny models, the stand-in for a GPU (second_device.py), and a GPU where there is one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from device_runs import REASONING, RUNS, WITHOUT_MODEL
from second_device import Traffic, second_device
from tiny_models import write_chat_llama, write_t5

from groundlab.core.run import Run, RunSpec
from groundlab.papers import registry
from groundlab.papers.glam import settings as glam_settings


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> dict[str, str]:
    """A tiny T5 and a tiny Llama."""
    writers = {"t5": write_t5, "llama": write_chat_llama}
    return {name: str(write(tmp_path_factory.mktemp(name))) for name, write in writers.items()}


@pytest.fixture
def spec_of(models, monkeypatch) -> Callable[..., RunSpec]:
    """A run of RUNS: spec_of("glam", device="cuda")."""
    monkeypatch.setattr(glam_settings, "FRAMES_PER_RECORD", 8)

    def spec(name: str, **given: Any) -> RunSpec:
        method, world, settings = RUNS[name]
        reads = {} if method in WITHOUT_MODEL else {"model": models["llama" if world == REASONING else "t5"]}
        chosen = {**reads, **settings, **given}
        chosen |= {"model": models[chosen["model"]]} if chosen.get("model") in models else {}
        return registry.resolve(method, world, 0, chosen)

    return spec


@pytest.fixture
def learner_of(spec_of, tmp_path_factory) -> Callable[..., Any]:
    """The learner of a run of RUNS, in a folder of its own: learner_of("glam", device="cuda")."""

    def learner(name: str, **given: Any) -> Any:
        spec = spec_of(name, **given)
        return registry.load(spec.method, spec.world).make_learner(spec, Run(tmp_path_factory.mktemp("run"), spec))

    return learner


GPUS: dict[str, Callable[[], AbstractContextManager[Traffic | None]]] = {"stand-in": second_device}
GPUS |= {"GPU": nullcontext} if torch.cuda.is_available() else {}


@pytest.fixture(params=GPUS)
def gpu(request) -> Callable[[], AbstractContextManager[Traffic | None]]:
    """Opens a device "cuda", which counts what goes between the two sides if it is the stand-in."""
    return GPUS[request.param]


@pytest.fixture
def cuda() -> Iterator[Traffic]:
    """A device "cuda" for the length of a test."""
    with second_device() as traffic:
        yield traffic
