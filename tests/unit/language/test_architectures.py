"""Scores, replies and token log-probabilities equal plain passes for every architecture, or are refused."""

import random
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn

from groundlab.core.errors import GroundlabError
from groundlab.language.decoding import Decoding
from groundlab.language.generation import ReplyGenerator
from groundlab.language.plain_passes import plain_pass
from groundlab.language.scoring import ActionScorer, score_actions
from groundlab.language.token_policy import TokenPolicy
from groundlab.learning.checkpoints import seeded_construction

SHORT, LONG = ["5 6 7", "5 6 7 8 9"], [" ".join(str(n * n % 80) for n in range(size)) for size in (30, 41)]
ACTIONS = ["5 6", "5 7 8", "9"]
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
CAUSAL: dict[str, Any] = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, **HEADS}
WINDOW = {"sliding_window": 16}
ENCODER: dict[str, Any] = {"vocab_size": 97, "d_model": 32, "max_position_embeddings": 64}
ENCODER |= {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 2), ("ffn_dim", 48))}
ENCODER |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
T5 = {"vocab_size": 97, "d_model": 32, "d_ff": 48, "d_kv": 8, "num_layers": 2, "num_heads": 4}
LONGROPE: dict[str, Any] = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0] * 4,
}
LONGROPE["original_max_position_embeddings"] = 16
MODELS = {
    "Llama": CAUSAL,
    "Qwen3": CAUSAL,
    "GPT2": {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4},
    "Mistral": CAUSAL | WINDOW,
    "Gemma3": CAUSAL | WINDOW,
    "Qwen2": CAUSAL | WINDOW | {"use_sliding_window": True, "max_window_layers": 1},
    "GPTNeo": {"vocab_size": 97, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 16}
    | {"attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64},
    "Phi3": CAUSAL | {"pad_token_id": 0, "rope_parameters": LONGROPE, "max_position_embeddings": 64},
    "Cohere": CAUSAL | {"logit_scale": 0.3},
    "Bloom": {"vocab_size": 97, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "OPT": CAUSAL | {"ffn_dim": 48, "max_position_embeddings": 64, "word_embed_proj_dim": 16},
    "Mamba": {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2},
    "T5": T5,
    "UMT5": T5,
    "Bart": ENCODER,
    "Marian": ENCODER | {"decoder_vocab_size": 97, "pad_token_id": 96, "decoder_start_token_id": 96},
    "Pegasus": ENCODER,
}


WORDS = Tokenizer(WordLevel({"<s>": 0, "<unk>": 1, "</s>": 2} | {str(word): 3 + word for word in range(94)}, "<unk>"))
WORDS.pre_tokenizer = Whitespace()
tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=WORDS, unk_token="<unk>", eos_token="</s>")


def built(family, **options):
    """A model of random weights, sharp enough that tokens differ in likelihood."""
    shape, kind = MODELS[family] | options, "ForConditionalGeneration"
    if family == "Marian":
        kind = "MTModel"
    elif not hasattr(hf, family + kind) or family in ("Gemma3", "Qwen2"):
        kind = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    with seeded_construction(0, "test"):
        model = getattr(hf, family + kind)(
            getattr(hf, family + ("TextConfig" if family == "Gemma3" else "Config"))(**shape)
        )
    for parameter in model.parameters():
        parameter.data *= 5 if parameter.ndim > 1 else 1
    return model.eval()


@torch.no_grad()
def plainly(model, prompt, reply):
    """The log-probabilities of a reply's tokens by the model's own forward: what they are."""
    ids = {"input_ids": torch.tensor([[*prompt, *reply]])}
    if model.config.is_encoder_decoder:
        start = getattr(model.config, "decoder_start_token_id", None) or 0
        ids = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": torch.tensor([[start, *reply]])}
    logits = model(**ids).logits[0, -len(reply) - 1 : -1]
    return logits.log_softmax(-1)[range(len(reply)), reply]


def ids_of(texts):
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("prompts", [SHORT, LONG, [SHORT[0], LONG[0]]], ids=["short", "long", "mixed"])
@pytest.mark.parametrize("family", MODELS)
def test_scores_replies_and_log_probabilities_are_those_of_plain_passes(family, prompts):
    model = built(family)
    with torch.no_grad():
        scores = score_actions(model, tokenizer, prompts, ACTIONS)
    pairs = [(prompt, action) for prompt in ids_of(prompts) for action in ids_of(ACTIONS)]
    expected = torch.tensor([plainly(model, *pair).sum() for pair in pairs]).view(len(prompts), -1)
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-4)
    if model.config.is_encoder_decoder:
        return
    read = TokenPolicy(model, keep_reference=False).read(*zip(*pairs, strict=True))
    torch.testing.assert_close(read.log_probs, torch.cat([plainly(model, *pair) for pair in pairs]), rtol=0, atol=1e-4)
    generate = ReplyGenerator(model, [], Decoding(max_new_tokens=5, temperature=0))
    for contexts in (ids_of(prompts), ids_of([prompts[1], SHORT[0]])):  # the second time from what was read
        said = generate(contexts, torch.zeros(2, 5))
        for prompt, reply, logprobs in zip(contexts, said.tokens, said.logprobs, strict=True):
            torch.testing.assert_close(torch.tensor(logprobs), plainly(model, prompt, reply), rtol=0, atol=1e-4)


def test_t5_llama_and_their_like_are_read_the_fast_way():
    slow = {family for family in MODELS if ActionScorer(built(family), tokenizer, ACTIONS)._plainness.needed(9)}
    assert slow == {"Cohere", "Bloom", "Mamba", "Bart", "Marian", "Pegasus"}


@pytest.mark.parametrize("rule", ["logit_sum", "prob_softmax"])
def test_plain_passes_have_values_gradients_and_every_rule(rule):
    model = built("Mistral")
    fast, slow = (ActionScorer(model, tokenizer, ACTIONS, rule=rule) for _ in range(2))
    slow._plainness._always = True
    grads = []
    for scorer in (fast, slow):
        scorer.zero_grad()
        scorer.backward(SHORT, lambda index, scores, values: (scores.softmax(-1)[:, 0] + values).sum())
        grads.append(torch.cat([p.grad.flatten() for p in scorer.parameters() if p.grad is not None]))
    torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-4)


def all_random():
    return [torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()]  # noqa: NPY002


@pytest.mark.parametrize("family", ["OPT", "Bart", "Pegasus"])
def test_evaluation_drops_nothing_and_leaves_the_model_as_it_was(family):
    model = built(family, dropout=0.3)
    model.train()
    model.get_decoder().layers[0].eval()
    model.get_output_embeddings().requires_grad_(False)
    modes, drawn = [module.training for module in model.modules()], all_random()
    scores = [score_actions(model, tokenizer, SHORT, ACTIONS) for _ in range(2)]
    assert torch.equal(*scores) and all_random() == drawn
    if family == "OPT":
        ReplyGenerator(model, [], Decoding(max_new_tokens=1))(ids_of(SHORT), torch.zeros(2, 1))
    assert [module.training for module in model.modules()] == modes
    assert all(p.grad is None for p in model.parameters()) and not model.get_output_embeddings().weight.requires_grad
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    scorer = ActionScorer(model, tokenizer, ACTIONS)
    assert not any(module.training for module in scorer.train().model.modules())


@pytest.mark.parametrize("family", ["OPT", "Bart"])
def test_checkpointed_layers_drop_nothing(family):
    gradients = []
    for checkpointed in (False, True):
        model, reads = built(family, dropout=0.3), []
        if checkpointed:
            model.activation_checkpointing_enable({"use_reentrant": False})
        scorer = ActionScorer(model, tokenizer, ACTIONS).train()
        model.get_decoder().layers[0].fc1.register_forward_pre_hook(lambda *_, seen=reads: seen.append(1))
        for _ in range(2):
            scorer.zero_grad()
            scorer.backward(SHORT[:1], lambda index, scores, values: scores.sum())
            gradients.append((len(reads), model.get_decoder().layers[0].fc1.weight.grad))
        assert not any("forward" in vars(module) for module in model.modules())
        model.train().zero_grad()
        score_actions(model, tokenizer, SHORT[:1], ACTIONS).sum().backward()  # of a caller that trains with dropout
        torch.testing.assert_close(model.get_decoder().layers[0].fc1.weight.grad, gradients[0][1])
    torch.testing.assert_close([gradient for _, gradient in gradients], [gradients[0][1]] * 4)
    once = gradients[0][0]
    assert [reads for reads, _ in gradients] == [once, 2 * once, 2 * once, 4 * once]


def test_a_model_is_checked_once_until_it_changes(monkeypatch):
    model, passes = built("Mistral"), []
    count = lambda *given, **options: passes.append(1) or plain_pass(*given, **options)  # noqa: E731
    monkeypatch.setattr("groundlab.language.plain_passes.plain_pass", count)
    for changed, most in ((False, 2), (False, 2), (True, 20)):
        scorer = ActionScorer(model.bfloat16() if changed else model, tokenizer, ACTIONS)
        assert 2 <= len(passes) <= most and not scorer._plainness._always
    assert len(passes) > 2


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


def test_what_no_plain_pass_gives_is_refused_in_one_line():
    noisy, refused = built("Mistral"), "this architecture is not supported: scores differ from a plain pass by"
    noisy.model.norm = Noisy()
    shape: dict[str, Any] = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    seeing = hf.BertLMHeadModel(hf.BertConfig(**shape, intermediate_size=48, is_decoder=False)).eval()
    drawn = all_random()
    for model in (noisy, seeing):
        for make in (
            lambda model: ActionScorer(model, tokenizer, ACTIONS),
            lambda model: TokenPolicy(model),
            lambda model: ReplyGenerator(model, [], Decoding()),
        ):
            with pytest.raises(GroundlabError, match=refused) as caught:
                make(model)
            assert "\n" not in str(caught.value)
    assert all_random() == drawn
    sparse = hf.BigBirdPegasusForConditionalGeneration(hf.BigBirdPegasusConfig(**ENCODER)).eval()
    with pytest.raises(GroundlabError, match='attention_type="original_full"'):
        score_actions(sparse, tokenizer, SHORT, ACTIONS)
    assert sparse.get_encoder().attention_type == "block_sparse"


@pytest.mark.parametrize("family", ["GPTNeo", "OPT", "Bart"])
def test_a_prompt_longer_than_the_positions_is_refused(family):
    model, prompt = built(family), " ".join(["7"] * 65)
    with pytest.raises(GroundlabError, match="the model reads 64; shorten"):
        score_actions(model, tokenizer, [prompt], ACTIONS)
    if family != "Bart":
        with pytest.raises(GroundlabError, match="the model reads 64; shorten"):
            TokenPolicy(model, keep_reference=False).read(ids_of([prompt]), [[5]])


def test_decoders_without_a_start_token_start_with_bos_and_embeddings_as_head_are_refused():
    side = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, **HEADS, **WINDOW}
    model = hf.T5GemmaForConditionalGeneration(
        hf.T5GemmaConfig(encoder=side, decoder=side | {"cross_attention_hidden_size": 32}, vocab_size=97)
    ).eval()
    model.config.decoder_start_token_id = None
    for text in (SHORT[0], LONG[0]):
        scores = score_actions(model, tokenizer, [text], ACTIONS[1:2]).detach()
        model.config.decoder_start_token_id = 2
        torch.testing.assert_close(scores[0, 0], plainly(model, *ids_of([text, ACTIONS[1]])).sum(), rtol=0, atol=1e-4)
        model.config.decoder_start_token_id = None
    shape = {"src_vocab_size": 97, "tgt_vocab_size": 97, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
    embedding = hf.FSMTForConditionalGeneration(hf.FSMTConfig(langs=["en", "de"], **shape)).eval()
    with pytest.raises(GroundlabError, match="this architecture is not supported"):
        ActionScorer(embedding, tokenizer, ACTIONS)
