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
from device_runs import GRID, LM, READING, REASONING, WRITING
from second_device import Traffic, second_device

from groundlab.core.run import Run
from groundlab.language import models as language_models
from groundlab.language.decoding import Decoding
from groundlab.language.generation import ReplyGenerator
from groundlab.papers import registry
from groundlab.papers.glam import settings as glam_settings

PROMPTS = [[5, 9, 11, 7], [8, 6], [12] * 9]


def traffic_of(method: str, world: str, settings: dict[str, Any]) -> Traffic:
    spec = registry.resolve(method, world, 0, {**settings, "device": "cuda"})
    with tempfile.TemporaryDirectory() as folder, second_device() as traffic:
        learner = registry.load(method, world).make_learner(spec, Run(Path(folder) / "run", spec))
        learner.train_step(1)
        before = replace(traffic)
        learner.train_step(2)
        return traffic.since(before)


def test_waits_and_copies_of_an_update_are_counted_alike_every_time(models):
    first, again = (traffic_of("glam", GRID, LM | {"model": models["t5"]}) for _ in range(2))
    gradient_steps = 2  # of an update of LM
    assert first == again and min(first.waits, first.to_device) >= gradient_steps


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
            replies = generate(PROMPTS, torch.Generator().manual_seed(0))
            counts[tokens] = counted.waits - before[0], counted.to_device - before[1]
        assert all(len(reply) == tokens for reply in replies.tokens)
    assert counts[12][0] - counts[4][0] == 8 and counts[12][1] == counts[4][1]


def test_drrn_waits_for_actions_and_for_what_torch_packs(monkeypatch):
    monkeypatch.setattr(glam_settings, "FRAMES_PER_RECORD", 12)
    packs = 2  # a reading packs prompts and actions, and torch copies the order of each to the device itself
    for steps, gradient_steps in ((1, 6), (3, 2)):
        settings = READING | {"steps_per_update": steps, "batch_size": 4, "frames": 24}
        counted = traffic_of("drrn", GRID, settings)
        plays, readings = 6, 6 + 2 * gradient_steps
        assert counted.waits == plays + packs * readings + 1, "the last is for the losses of the record"


def test_symbolic_ppo_waits_once_a_step_of_play_and_once_for_its_record():
    settings = READING | {"frames": 16, "frames_per_env": 4, "recurrence": 2, "batch_size": 4}
    counts = [traffic_of("symbolic", GRID, settings | {"epochs": epochs}).waits for epochs in (1, 3)]
    assert counts == [settings["frames_per_env"] + 1] * 2, "however many gradient steps"
