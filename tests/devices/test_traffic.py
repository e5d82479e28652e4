"""What an update makes a GPU and the CPU wait for and send each other, counted on the stand-in: there is little of it.

A wait for all work on the device costs tens of microseconds and leaves it idle, whatever the model. What is counted is
a run's second update: the first makes what later ones reuse.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from device_runs import GRID, LM, REASONING, WRITING
from second_device import Traffic, second_device

from groundlab.core.run import Run
from groundlab.language import models as language_models
from groundlab.language.decoding import Decoding
from groundlab.language.generation import ReplyGenerator
from groundlab.papers import registry

PROMPTS = [[5, 9, 11, 7], [8, 6], [12] * 9]


def traffic_of(method: str, world: str, settings: dict[str, Any]) -> Traffic:
    spec = registry.resolve(method, world, 0, {**settings, "device": "cuda"})
    with tempfile.TemporaryDirectory() as folder, second_device() as traffic:
        learner = registry.load(method, world).make_learner(spec, Run(Path(folder) / "run", spec))
        learner.train_step(1)
        before = replace(traffic)
        learner.train_step(2)
        return traffic.since(before)


@pytest.mark.parametrize("changes", [{}, {"lora_rank": 2}, {"dtype": "bfloat16"}])
def test_glam_waits_once_a_step_of_play_and_once_a_gradient_step(models, changes):
    settings = LM | {"model": models["t5"], "epochs": 3} | changes
    counted = traffic_of("glam", GRID, settings)
    gradient_steps = 3 * settings["num_envs"] * settings["frames_per_env"] // settings["batch_size"]
    assert counted.waits <= settings["frames_per_env"] + 1 + gradient_steps  # values after the last step are read too


def test_a_gradient_step_on_replies_waits_once_for_us_and_once_for_transformers(models):
    few, many = (
        traffic_of("direct", REASONING, WRITING | {"model": models["llama"], "epochs": epochs}) for epochs in (1, 3)
    )
    gradient_steps = 2 * WRITING["steps"] // WRITING["minibatch_size"]
    ours, theirs = gradient_steps, gradient_steps  # transformers looks into the positions of what it reads
    assert many.waits - few.waits == ours + theirs


def test_a_token_of_a_reply_costs_one_wait_and_no_copy(models):
    counts = {}
    for tokens in (4, 12):
        model, _ = language_models.load(models["llama"], kind="causal")
        with second_device() as counted:
            generate = ReplyGenerator(model.to("cuda"), [], Decoding(tokens))
            before = counted.waits, counted.to_device
            replies = generate(PROMPTS, torch.rand(3, tokens))
            counts[tokens] = counted.waits - before[0], counted.to_device - before[1]
        assert all(len(reply) == tokens for reply in replies.tokens)
    assert counts[12][0] - counts[4][0] == 8 and counts[12][1] == counts[4][1]
