"""What a token gets does not depend on padding or batch, nor does the gradient of a loss of it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load
from transformers import LlamaConfig, LlamaForCausalLM

from groundlab.core.errors import GroundlabError
from groundlab.language.models import Lora, add_lora
from groundlab.language.token_policy import Reading, TokenPolicy, ValueHead, token_log_probs
from groundlab.learning import checkpoints, token_ppo
from groundlab.learning.checkpoints import seeded_construction
from groundlab.learning.token_ppo import Batch

WORDS = 48


def tiny_llama(seed=0, tied=False):
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.4, tie_word_embeddings=tied,
    )  # fmt: skip
    with seeded_construction(seed, "test"):
        return LlamaForCausalLM(config).eval()


def policy(token_budget=8192, lora=False, **options):
    model = tiny_llama()
    if lora:
        model = add_lora(model, Lora(rank=2, alpha=4), seed=1)
    return TokenPolicy(model, token_budget=token_budget, **options)


def conversations(count, seed=0, words=WORDS):
    rng = np.random.default_rng(seed)
    prompts, responses = (
        [rng.integers(1, words, rng.integers(1, most + 1)).tolist() for _ in range(count)] for most in (20, 7)
    )
    return prompts, responses


def plainly(model, head, prompt, response, temperature=1.0):
    """One conversation on its own, unpadded, by the model's own forward: what the numbers are."""
    out = model(input_ids=torch.tensor([[*prompt, *response]]), output_hidden_states=True)
    log_all = (out.logits[0] / temperature).log_softmax(-1)[len(prompt) - 1 :]
    values = head(out.hidden_states[-1][0])[len(prompt) - 1 :]
    entropies = -(log_all[:-1].exp() * log_all[:-1]).sum(-1)
    return log_all[range(len(response)), response], values[:-1], entropies, values[-1:]


def alike(count, seed=0):
    """Conversations whose prompts begin with one of two long beginnings."""
    prompts, responses = conversations(count, seed)
    beginnings = conversations(2, seed=seed + 1)[0]
    return [(beginnings[row % 2] * 4)[:18] + prompt for row, prompt in enumerate(prompts)], responses


@pytest.mark.parametrize("talk", [conversations, alike])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_rows_are_read_as_each_on_its_own(talk, temperature):
    model, head = tiny_llama(), ValueHead(32)
    prompts, responses = talk(6)
    with torch.no_grad():
        reading = token_log_probs(model, prompts, responses, head, temperature, overhead=0.0)
        alone = [plainly(model, head, p, r, temperature) for p, r in zip(prompts, responses, strict=True)]
    for field, parts in zip(reading, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(field, torch.cat(parts), rtol=1e-4, atol=1e-5)


def test_a_conversation_without_tokens_is_refused():
    for prompts, responses in (([[]], [[3]]), ([[3]], [[]])):
        with pytest.raises(ValueError, match="keep the end token"):
            policy().read(prompts, responses)


@pytest.mark.parametrize("lora", [True, False])
def test_the_reference_is_the_model_before_training(lora):
    trained = policy(lora=lora)
    prompts, responses = conversations(4)
    before = trained.read(prompts, responses).log_probs
    with torch.no_grad():
        for parameter in trained.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1)
    assert (trained.read(prompts, responses).log_probs - before).abs().max() > 1e-2
    torch.testing.assert_close(trained.reference(prompts, responses), before)


def test_a_policy_without_adapters_or_copy_has_no_reference():
    with pytest.raises(GroundlabError, match="keep_reference=True"):
        policy(keep_reference=False).reference(*conversations(1))


def test_only_adapters_and_value_head_are_trained_and_the_reference_is_no_part_of_the_policy():
    adapted, whole = policy(lora=True), policy()
    trained = {name for name, p in adapted.named_parameters() if p.requires_grad}
    assert all(".q_proj.lora_" in name or ".v_proj.lora_" in name or "value_head." in name for name in trained)
    assert sum(p.numel() for p in whole.parameters()) == sum(p.numel() for p in tiny_llama().parameters()) + 33


@pytest.mark.parametrize("lora", [True, False])
def test_a_stored_policy_is_the_same_and_holds_what_was_trained_once(lora):
    def build(seed):
        model = tiny_llama(tied=True)
        return TokenPolicy(add_lora(model, Lora(rank=2), seed=seed) if lora else model, seed=seed)

    first, second = build(1), build(2)
    with torch.no_grad():
        for parameter in first.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1)
    talk = conversations(3)
    optimizers = [torch.optim.Adam([p for p in net.parameters() if p.requires_grad]) for net in (first, second)]
    files = checkpoints.pack(first, optimizers[0], {"update": 3})
    assert checkpoints.unpack(files, second, optimizers[1]) == {"update": 3}
    for expected, found in zip(first.read(*talk), second.read(*talk), strict=True):
        assert torch.equal(found, expected)
    torch.testing.assert_close(second.reference(*talk), build(3).read(*talk).log_probs)
    stored = load(files["network.safetensors"])
    assert sum(x.numel() for x in stored.values()) == sum(p.numel() for p in first.parameters() if p.requires_grad)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_value_heads_are_drawn_from_the_seed(kind):
    first, same, other = (policy(value_head=kind, seed=seed) for seed in (0, 0, 1))
    values = [p.read(*conversations(2)).values for p in (first, same, other)]
    assert torch.equal(values[0], values[1]) and not torch.equal(values[0], values[2])
    assert policy(value_head="none").read(*conversations(2)).values.tolist() == [0] * len(values[0])
    with pytest.raises(GroundlabError, match="did you mean 'linear'"):
        policy(value_head="lineal")


LOSS = SimpleNamespace(  # every term of it switched on
    clip=0.2, value_clip=0.2, critic_coefficient=0.1, entropy_coefficient=0.01, kl_loss_coefficient=0.05,
    kl_estimator="k3", max_grad_norm=None, ratio_threshold=None,
)  # fmt: skip


def batch_of(reading, responses):
    """What such replies were worth, by chance, and what was thought of them when they were said."""
    draw, log_probs = torch.Generator().manual_seed(2), reading.log_probs.detach()
    noise, advantages, returns = torch.randn(3, len(log_probs), generator=draw)
    old = log_probs + 0.3 * noise, log_probs - noise.abs(), reading.values.detach() + 0.3 * noise
    return Batch(torch.tensor(list(map(len, responses))), *old, advantages, returns)


@pytest.mark.parametrize("talk", [conversations, alike])
@pytest.mark.parametrize("count", [1, 16])
@pytest.mark.parametrize("budget", [1, 60, 8192])
def test_ppos_gradients_are_those_of_conversations_read_one_by_one_however_it_is_cut(budget, count, talk):
    """Whatever the token budget, and whether the common beginnings of prompts are read once or not."""
    prompts, responses = talk(count, seed=7)
    net, plain = policy(budget, seed=3, pass_tokens=0.0), policy(seed=3)
    alone = [plainly(plain.model, plain.value_head, p, r) for p, r in zip(prompts, responses, strict=True)]
    reading = Reading(*map(torch.cat, zip(*alone, strict=True)))
    batch, optimizer = batch_of(reading, responses), torch.optim.SGD(net.parameters(), lr=0.0)
    figures = token_ppo.step(lambda loss: net.backward(prompts, responses, loss), optimizer, batch, LOSS)
    expected = token_ppo.losses_of(reading, batch, LOSS)[0] / len(batch.log_probs)
    expected.backward()
    assert figures["loss"] == pytest.approx(expected.item(), abs=1e-5)
    for (name, ours), theirs in zip(net.named_parameters(), plain.parameters(), strict=True):
        assert ours.grad is not None and ours.grad.abs().max() > 0, name
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5, msg=name)


def test_checkpointed_layers_give_the_same_gradient():
    prompts, responses = conversations(3)
    gradients = []
    for checkpointed in (False, True):
        model = tiny_llama()
        if checkpointed:
            model.activation_checkpointing_enable({"use_reentrant": False})
        net, reads = TokenPolicy(model, keep_reference=False), []
        model.model.layers[0].mlp.register_forward_pre_hook(lambda *_, seen=reads: seen.append(1))
        net.backward(prompts, responses, lambda places, reading: reading.log_probs.sum())
        gradients.append(net.model.model.layers[0].mlp.up_proj.weight.grad)
        assert len(reads) == 1 + checkpointed and not net.train().model.model.layers[0].training
    torch.testing.assert_close(*gradients)
