"""The stand-in for a GPU notices what CUDA would refuse: one planted mistake in each family of methods."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from second_device import second_device
from torch.utils._device import _device_constructors

from groundlab.core.run import Run
from groundlab.language import models as language_models
from groundlab.language import pretraining, token_policy
from groundlab.learning.devices import send
from groundlab.papers import registry
from groundlab.papers.glam import drrn, ppo
from groundlab.papers.knowledge import networks as knowledge_networks
from groundlab.papers.knowledge import ppo as knowledge_ppo
from groundlab.papers.knowledge.bk_pref import PreferencePotential, PreferenceTransformer
from groundlab.papers.knowledge.observations import GRID, Windows
from groundlab.papers.mediator import network as mediator_network
from groundlab.papers.mediator import rule_cloning

ELSEWHERE = "at least two devices"


def _glam_advantages(learner, patch):
    backward = ppo.backward
    patch.setattr(ppo, "backward", lambda *args: backward(*args[:4], args[4].cpu(), *args[5:]))


def _glam_master(learner, patch):
    master = learner.optimizer.param_groups[0]["params"][0]
    master.data = master.data.cpu()


def _cloning_inputs(learner, patch):
    patch.setattr(type(learner.scorer.model), "device", torch.device("cpu"))


def _drrn_prompts(learner, patch):
    learner._q._device = torch.device("cpu")


def _symbolic_loss(learner, patch):
    patch.setattr(torch, "stack", lambda parts, *rest, own=torch.stack: own([part.cpu() for part in parts], *rest))


def _left(module):
    return lambda learner, patch: patch.setattr(module, "send", lambda tensor, device: tensor)


def _mediator_advantages(learner, patch):
    update = mediator_network.ppo.update
    patch.setattr(mediator_network.ppo, "update", lambda *args: update(*args[:3], args[3].cpu(), *args[4:]))


def _reasoning_targets(learner, patch):
    patch.setattr(token_policy, "_index", lambda numbers, like: torch.tensor(numbers))


MISTAKES = {
    "glam: advantages": ("glam", _glam_advantages),
    "glam: a master": ("glam bfloat16", _glam_master),
    "cloning: inputs": ("cloning", _cloning_inputs),
    "drrn: prompts": ("drrn", _drrn_prompts),
    "symbolic: losses": ("symbolic", _symbolic_loss),
    "mediator: inputs": ("mediator", _left(mediator_network)),
    "mediator: advantages": ("mediator", _mediator_advantages),
    "rule-cloning: decisions": ("rule-cloning", _left(rule_cloning)),
    "knowledge: views": ("knowledge", _left(knowledge_networks)),
    "knowledge: experience": ("knowledge, small", _left(knowledge_ppo)),
    "reasoning: targets": ("reasoning", _reasoning_targets),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_tensor_left_on_the_cpu_is_noticed(spec_of, tmp_path, cuda, monkeypatch, mistake):
    name, plant = MISTAKES[mistake]
    spec = spec_of(name, device="cuda")
    learner = registry.load(spec.method, spec.world).make_learner(spec, Run(tmp_path / "run", spec))
    plant(learner, monkeypatch)
    with pytest.raises(RuntimeError, match=ELSEWHERE):
        learner.train_step(1)


def test_what_acts_must_come_to_the_cpu_before_numpy_reads_it(spec_of, cuda, monkeypatch):
    learner = drrn.make_learner(spec_of("drrn", device="cuda"))
    monkeypatch.setattr(learner._q, "policy", lambda numbers: (learner._q(numbers).detach(), None))
    with pytest.raises(TypeError, match="to numpy"):
        learner.train_step(1)


def test_preferences_are_read_on_their_device(cuda):
    windows = Windows(np.zeros((3, 6, 7, 7, 3), np.uint8), np.zeros((3, 5), np.int64), np.zeros((3, 6), np.int64))
    potential = PreferencePotential(PreferenceTransformer(GRID.shape, 7, size="small"), "cuda")
    assert potential(windows).shape == (3,)
    potential._device = "cpu"
    with pytest.raises(RuntimeError, match=ELSEWHERE):
        potential(windows)


def test_pretraining_reads_its_batches_on_its_device(models, cuda):
    recipe = pretraining.load_recipe("smoke-t5", batch_size=4)
    model, words = language_models.load(models["t5"], device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    samples = next(pretraining.pool(recipe, recipe.stages[0], 0))
    batch = pretraining.probes.collate(model, words, samples)
    pretraining._update(model, optimizer, batch, 1e-3, 1.0)
    with pytest.raises(RuntimeError, match=ELSEWHERE):
        left = {name: tensor.cpu() for name, tensor in batch.items()}
        pretraining._update(model, optimizer, left, 1e-3, 1.0)


REFUSED = {
    "a sum of both sides": lambda x: x + torch.ones(3, 4),
    "an accumulator on the CPU": lambda x: torch.zeros(()).add_(x.sum()),
    "rows of both sides": lambda x: torch.cat([x, torch.ones(1, 4)]),
    "an index on the device into the CPU's rows": lambda x: torch.ones(3, 4)[x[:, 0].long()],
    "the CPU's generator": lambda x: torch.rand(3, device="cuda", generator=torch.Generator()),
    "a draw by the CPU's generator": lambda x: x.multinomial(1, generator=torch.Generator()),
    "a gradient of both sides": lambda x: (x * torch.ones(3, 4, requires_grad=True)).sum().backward(),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_cuda_and_its_stand_in_refuse(cuda, mistake):
    with pytest.raises(RuntimeError, match="device"):
        REFUSED[mistake](torch.rand(3, 4).to("cuda"))


def test_what_is_built_on_meta_is_on_meta_inside_and_ever_after():
    _device_constructors.cache_clear()  # as in a process that has not asked yet
    for context in (second_device(), nullcontext()):
        with context, torch.device("meta"):
            assert torch.arange(3).is_meta and torch.ones(2).is_meta, "transformers builds models there"


def test_what_goes_between_the_sides_is_counted():
    with second_device() as traffic:
        x = send(torch.rand(3, 4), "cuda")
        assert (traffic.waits, traffic.to_device) == (0, 1), "nobody waits for what is sent"
        x[torch.tensor([0])], torch.rand(3).to("cuda"), torch.tensor([1.0], device="cuda")
        assert (traffic.waits, traffic.to_device) == (3, 4)
        float(x.sum()), x.tolist(), x.cpu(), x[x > 0.5], bool(x.sum() > 0)
        assert (traffic.waits, traffic.to_device) == (8, 4)
        send(x, "cpu"), send(x, "cuda")
        assert (traffic.waits, traffic.to_device) == (9, 4)
        assert (x * 2).device == x.new_zeros(3).device == torch.zeros_like(x).device == torch.device("cuda", 0)
    assert x.device.type == "cpu", "afterwards it is where it always was"
