"""The model behind the replies: what is saved is peft's own, and opens to the same numbers."""

import json

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from groundlab.core.errors import GroundlabError
from groundlab.language.chat_format import DialogueWriter
from groundlab.papers.reasoning.policy import (
    adapter_dropout,
    evaluation_policy,
    open_chat_policy,
    open_policy,
    save_policy,
)
from groundlab.papers.reasoning.settings import ReplySettings, TrainingSettings
from groundlab.papers.reasoning.text_env import MARKER, parse_action

PROMPTS, RESPONSES = [[5, 9, 11, 30], [7, 8]], [[12, 13, 1], [40, 1]]
MESSAGES = [{"role": "system", "content": "go"}, {"role": "user", "content": "You see a wall 2 steps left"}]


def trained(resolved, **given):
    """(settings, policy, tokenizer), the policy's weights moved as training would."""
    settings = TrainingSettings(**resolved(**given))
    policy, tokenizer = open_policy(settings, seed=3)
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=rng))
    return settings, policy, tokenizer


@pytest.mark.parametrize("given", [{"lora_rank": 4}, {}, {"lora_rank": 2, "value_head": "mlp"}])
def test_a_saved_policy_opens_to_the_same_log_probabilities_and_values(given, resolved, tmp_path):
    settings, policy, tokenizer = trained(resolved, **given)
    save_policy(policy, tokenizer, tmp_path)
    again, _ = open_policy(settings.model_copy(update={"model": str(tmp_path)}), seed=9)
    for field, other in zip(policy.read(PROMPTS, RESPONSES), again.read(PROMPTS, RESPONSES), strict=True):
        assert torch.equal(field, other)
    names = {name for name, parameter in policy.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in again.named_parameters() if parameter.requires_grad} == names


def test_peft_alone_opens_the_adapters(resolved, tmp_path, model_folder):
    _, policy, tokenizer = trained(resolved, lora_rank=4)
    save_policy(policy, tokenizer, tmp_path)
    assert set(json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"]) == {"q_proj", "v_proj"}
    assert not (tmp_path / "model.safetensors").exists()
    stock = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model_folder), str(tmp_path)).eval()
    ids = torch.tensor([[*PROMPTS[0], *RESPONSES[0]]])
    with torch.no_grad():
        assert torch.equal(stock(input_ids=ids).logits, policy.model(input_ids=ids).logits)


def test_a_thought_without_an_end_is_cut_at_exactly_the_limit_and_invalid(resolved):
    settings = TrainingSettings(**resolved("reasoning", max_new_tokens=20))
    policy, tokenizer = open_policy(settings, seed=0)
    chat_policy = evaluation_policy(policy.model, tokenizer, settings)
    unsaid = [*DialogueWriter(tokenizer).end_tokens, *tokenizer(MARKER, add_special_tokens=False)["input_ids"]]
    prompts, numbers = [chat_policy.prompt(MESSAGES)] * 32, np.random.default_rng(0).random((32, 20))
    answered = chat_policy.reply(prompts, numbers)
    head = policy.model.get_output_embeddings()
    head.register_forward_hook(lambda _, given, logits: logits.index_fill(-1, torch.tensor(unsaid), -torch.inf))
    endless = chat_policy.reply(prompts, numbers)
    assert any(parse_action(reply.text, True, settings.parser) is not None for reply in answered)
    assert not any(parse_action(reply.text, True, settings.parser) is not None for reply in endless)
    assert [len(reply.tokens) for reply in endless] == [20] * 32 and not any(reply.ended for reply in endless)


def test_another_value_head_is_refused(resolved, tmp_path):
    settings, policy, tokenizer = trained(resolved, lora_rank=2)
    save_policy(policy, tokenizer, tmp_path)
    with pytest.raises(GroundlabError, match="another kind than value_head=mlp"):
        open_policy(settings.model_copy(update={"model": str(tmp_path), "value_head": "mlp"}), seed=0)


def test_critic_free_estimators_have_no_value_head(resolved):
    given = {"estimator": "rloo", "episodes": "whole", "group_size": 2}
    assert open_policy(TrainingSettings(**resolved(**given)), seed=0)[0].value_head is None


def test_adapters_drop_only_inside_and_by_their_seed(resolved):
    _, policy, _ = trained(resolved, lora_rank=4, lora_dropout=0.5)
    ids = torch.tensor([[*PROMPTS[0], *RESPONSES[0]]])

    def logits(*seed):
        with torch.no_grad():
            if not seed:
                return policy.model(input_ids=ids).logits
            with adapter_dropout(policy.model, *seed):
                return policy.model(input_ids=ids).logits

    before, state = logits(), torch.get_rng_state()
    assert torch.equal(logits(0, "dropout", 1), logits(0, "dropout", 1))
    assert not torch.equal(logits(0, "dropout", 1), logits(0, "dropout", 2))
    assert not torch.equal(logits(0, "dropout", 1), before)
    assert torch.equal(logits(), before) and torch.equal(torch.get_rng_state(), state)


def test_hidden_separators_are_as_if_they_were_not_there(model_folder):
    """Quirk Q7: masked tokens, as transformers counts positions from the mask, equal tokens that are left out."""
    plain = open_chat_policy(ReplySettings(model=str(model_folder)))
    hiding = open_chat_policy(ReplySettings(model=str(model_folder), fidelity={"masked_separators": True}))  # type: ignore[arg-type]
    whole, hidden = plain.prompt(MESSAGES), hiding.prompt(MESSAGES)
    assert hidden == [token for token in whole if token != plain.end_token] and len(whole) == len(hidden) + 2
    model = AutoModelForCausalLM.from_pretrained(model_folder).eval()
    ids = torch.tensor([whole])
    mask = (ids != plain.end_token).long()
    with torch.no_grad():
        masked = model(input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits
        left_out = model(input_ids=torch.tensor([hidden])).logits
    torch.testing.assert_close(masked[0, -1], left_out[0, -1], atol=1e-5, rtol=1e-5)
