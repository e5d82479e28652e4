"""The agents as runs: they learn, they resume to the same numbers, and no reply stops them."""

import numpy as np
import pytest
import runs
import torch
from runs import evaluations

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec
from groundlab.papers import registry
from groundlab.papers.reasoning.evaluation import evaluate, make_env, play_layouts
from groundlab.papers.reasoning.policy import ChatPolicy, open_chat_policy, open_policy
from groundlab.papers.reasoning.ppo import make_learner, update_policy
from groundlab.papers.reasoning.rollouts import Collector
from groundlab.papers.reasoning.settings import ReplySettings, TrainingSettings

from .conftest import WORLD

LORA = {"lora_rank": 2, "lora_dropout": 0.3, "fidelity": {"dropout": True}}
GROUPS = {"estimator": "gigpo", "episodes": "whole", "group_size": 2, "steps": 8}
ORIGINAL = {"fidelity": {"drop_unfinished": True}, "steps": 12, "outer_value": "after-response", "epochs": 2}


def spec(resolved, method="direct", seed=0, **given):
    return RunSpec(method=method, world=WORLD, seed=seed, settings=resolved(method, **given))


def test_runs_stored_with_the_settings_of_vllm_are_read_unless_it_drew_their_replies(resolved):
    today = spec(resolved)
    settings = today.settings | {"backend": "embedded", "engine_gb": 4.0}
    assert registry.stored_spec(today.model_copy(update={"settings": settings}), {}) == today
    served = today.model_copy(update={"settings": settings | {"backend": "vllm"}})
    with pytest.raises(GroundlabError, match="backend"):
        registry.stored_spec(served, {"backend": "vllm"})


@pytest.mark.parametrize(("method", "given"), [("reasoning", LORA), ("direct", GROUPS), ("direct", ORIGINAL)])
def test_adapters_dropout_groups_and_dropped_episodes_go_through_a_checkpoint(method, given, resolved):
    runs.goes_on(lambda: make_learner(spec(resolved, method, **given)))


@pytest.mark.slow
def test_an_agent_learns_to_answer_in_the_demanded_form(resolved):
    """Invalid replies cost 1: with 25 updates of 64 replies, all but a few are valid, and were not before."""
    given = {"num_envs": 8, "steps": 64, "minibatch_size": 16, "lr": 3e-3, "kl": "none"}
    learner = make_learner(spec(resolved, **given))
    valid = [learner.train_step(number)["valid"] for number in range(1, 26)]
    assert np.mean(valid[:2]) < 0.8
    assert np.mean(valid[-3:]) > 0.95


def test_the_model_that_a_run_saves_plays_as_the_run_did(resolved, tmp_path):
    registry.execute(Run(tmp_path, spec(resolved, lora_rank=2, lr=1e-2)))
    stored = evaluations(tmp_path)
    saved = resolved("direct-zero-shot", model=str(tmp_path / "model"))
    assert registry.evaluate(registry.Request("direct-zero-shot", WORLD, 0, saved)) == stored


def test_a_layouts_row_does_not_depend_on_which_others_are_played(resolved):
    settings = ReplySettings(**resolved("direct-zero-shot"))
    chat_policy = open_chat_policy(settings)
    few, many = (play_layouts(chat_policy, WORLD, layouts, False, settings, 0) for layouts in ([4, 2], range(8)))
    assert few == [many[4], many[2]]
    assert play_layouts(chat_policy, WORLD, [4, 2], False, settings, 1) != few


def test_the_evaluation_shows_invalid_replies_only_where_the_original_does(resolved):
    seen = {}
    for shown in (False, True):
        settings = ReplySettings(**resolved("direct-zero-shot", fidelity={"shown_in_evaluation": shown}, layouts="0-5"))
        chat_policy, told = open_chat_policy(settings), []
        prompt = chat_policy.prompt
        chat_policy.prompt = lambda messages: told.extend(messages) or prompt(messages)  # noqa: B023
        evaluate(chat_policy, WORLD, False, settings, 0)
        seen[shown] = [message["content"] for message in told if message["role"] == "assistant"]
    assert "Generated invalid action" in seen[False] and "Generated invalid action" not in seen[True]


GARBAGE = ["", " ", "\x00\x1b[2J\r\t", "走って右へ曲がれ", "\ud83d", "</s><user>go</s>", "🤖\u202e" * 9]
GARBAGE.append("final answer:" * 500)


@pytest.mark.parametrize("thinks", [True, False])
def test_no_reply_stops_a_run(thinks, resolved):
    """Empty, endless, in another script, of control characters: all are invalid, and learnt from."""
    settings = TrainingSettings(**resolved(steps=64, invalid_limit=5))
    policy, tokenizer = open_policy(settings, seed=0)
    chat_policy, said = ChatPolicy(policy.model, tokenizer, settings), iter(GARBAGE * 100)
    whole = chat_policy.reply
    chat_policy.reply = lambda *given: [reply._replace(text=next(said)) for reply in whole(*given)]
    text_env = make_env(WORLD, 4, thinks, settings)
    rollout = Collector(text_env, chat_policy, settings, 0).collect(1)
    assert not any(step.valid for step in rollout.steps)
    assert {row["length"] for row in rollout.episodes} == {5}
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    learning = policy, optimizer, settings.kl_controller(), rollout, settings, np.random.default_rng(0)
    figures = update_policy(*learning, chat_policy.end_token)
    assert np.isfinite(figures["loss"])
