"""Scores are those of the original code, do not depend on the batch, and their gradients not on how it is cut."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_heads import ACTIONS, GOLDEN, PROMPTS, RECORDED, T5, recorded_heads
from safetensors.torch import load, save
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, LlamaForCausalLM, T5ForConditionalGeneration
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast

from groundlab.core.errors import GroundlabError
from groundlab.language import kept_states
from groundlab.language.kept_states import KeptStates
from groundlab.language.models import Lora, add_lora
from groundlab.language.prefix_batching import batches, branch
from groundlab.language.scoring import TOKEN_BUDGET, ActionScorer, score_actions
from groundlab.learning.checkpoints import seeded_construction

NESTED = ["go", "go forward", "go forward and turn left", "go forward and turn right", "go to", "toggle"]
KINDS = ["tiny_t5", "tiny_llama", "gpt2"]


def tokenizer():
    return AutoTokenizer.from_pretrained(GOLDEN / "tiny_t5")


def build(kind):
    if kind == "tiny_t5":
        return T5ForConditionalGeneration.from_pretrained(GOLDEN / kind)
    if kind == "tiny_llama":
        return LlamaForCausalLM.from_pretrained(GOLDEN / kind)
    config = GPT2Config(vocab_size=600, n_embd=32, n_layer=2, n_head=4, n_positions=256, initializer_range=0.3)
    with seeded_construction(0, "gpt2"):
        return GPT2LMHeadModel(config).eval()


def golden_heads(scorer):
    stored = recorded_heads()
    for head, name in ((scorer.value_head, "value.value_head_op"), (scorer.action_head, "policy_head.action_heads_op")):
        if head is not None:
            head.layers.load_state_dict({key[len(name) + 1 :]: stored[key] for key in stored if key.startswith(name)})
    return scorer


def plain_scores(model, prompts, actions):
    """Every pair on its own, by the model's own forward: what a score is."""
    scores = torch.empty(len(prompts), len(actions))
    for i, prompt in enumerate(tokenizer()(prompts, add_special_tokens=False)["input_ids"]):
        for j, action in enumerate(tokenizer()(actions, add_special_tokens=False)["input_ids"]):
            if model.config.is_encoder_decoder:
                decoder = torch.tensor([[0, *action[:-1]]])
                logits = model(input_ids=torch.tensor([prompt]), decoder_input_ids=decoder).logits[0]
            else:
                logits = model(input_ids=torch.tensor([prompt + action])).logits[0, len(prompt) - 1 : -1]
            scores[i, j] = logits.log_softmax(-1)[range(len(action)), action].sum()
    return scores


def gradients(module):
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def assert_same_gradients(first, second):
    assert first.keys() == second.keys() and len(first) > 10
    for name, grad in first.items():
        torch.testing.assert_close(grad, second[name], rtol=1e-4, atol=1e-4 * grad.abs().max().item() + 1e-8, msg=name)


@pytest.mark.parametrize("budget", [1, 150, TOKEN_BUDGET])
@pytest.mark.parametrize("actions", ["actions6", "actions9"])
@pytest.mark.parametrize("kind", ["tiny_t5", "tiny_llama"])
def test_log_probabilities_are_lamorels_for_any_split(kind, actions, budget):
    with torch.no_grad():
        scores = score_actions(build(kind), tokenizer(), PROMPTS, RECORDED[actions], token_budget=budget)
    for suffix in ("minibatch=192", "one prompt per call"):
        expected = RECORDED["models"][kind][f"log_softmax_sum/{actions}/pre_encode=True/{suffix}"]
        torch.testing.assert_close(scores, torch.tensor(expected), rtol=0, atol=1e-4)


@pytest.mark.parametrize("budget", [1, TOKEN_BUDGET])
def test_raw_logits_with_a_bonus_for_missing_tokens_are_the_repositorys(budget):
    scores = score_actions(build("tiny_t5"), tokenizer(), PROMPTS, ACTIONS, "logit_sum", token_budget=budget)
    for size in (3, 192):
        expected = torch.tensor(T5[f"glam_repo_raw_logit_sum/actions6/minibatch={size}"])
        torch.testing.assert_close(scores, expected, rtol=0, atol=1e-4)
        policy = torch.tensor(T5[f"glam_repo_policy/actions6/minibatch={size}"])
        torch.testing.assert_close(scores.softmax(-1), policy, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("budget", [1, TOKEN_BUDGET])
@pytest.mark.parametrize("actions", ["actions6", "actions9"])
def test_probabilities_with_end_tokens_are_the_first_releases(actions, budget):
    expected = T5["lamorel_release_2023_02 (commit d76c7c2)"][actions]
    given = build("tiny_t5"), tokenizer(), PROMPTS, RECORDED[actions], "prob_softmax"
    scores = score_actions(*given, token_budget=budget)
    torch.testing.assert_close(scores.softmax(-1), torch.tensor(expected["policy"]), rtol=0, atol=1e-5)
    products = torch.tensor(expected["scores_probabilities"], dtype=torch.float64)
    relative = (products / products.max(-1, keepdim=True).values).float()
    torch.testing.assert_close(scores, relative, rtol=1e-3, atol=1e-30)


def test_the_first_releases_policy_cannot_become_greedy():
    model = build("tiny_t5")
    with torch.no_grad():
        model.lm_head.weight.mul_(5)
    policy = score_actions(model, tokenizer(), PROMPTS, ACTIONS, "prob_softmax").softmax(-1)
    entropy = -(policy * policy.log()).sum(-1)
    assert policy.max() <= 0.3522 and entropy.min() >= 1.6914 and entropy.max() <= 1.7918


def test_the_first_releases_policy_is_uniform_when_all_products_vanish():
    model = build("tiny_t5")
    with torch.no_grad():
        model.lm_head.weight.mul_(1e3)
    scores = score_actions(model, tokenizer(), PROMPTS[:2], ["turn left", "pick up"], "prob_softmax")
    torch.testing.assert_close(scores.softmax(-1), torch.full((2, 2), 0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_actions_that_begin_alike_score_as_if_each_were_read_alone(kind):
    model = build(kind)
    with torch.no_grad():
        scores = score_actions(model, tokenizer(), PROMPTS, NESTED)
        torch.testing.assert_close(scores, plain_scores(model, PROMPTS, NESTED), rtol=0, atol=1e-4)
        backwards = score_actions(model, tokenizer(), PROMPTS, NESTED[::-1])
        torch.testing.assert_close(backwards.flip(1), scores, rtol=0, atol=1e-4)


WORDS = st.sampled_from(sorted({word for prompt in PROMPTS for word in prompt.split()}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompts_scores_and_value_do_not_depend_on_its_company(kind):
    scorer = ActionScorer(build(kind), tokenizer(), NESTED)

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(st.lists(WORDS, min_size=1, max_size=30), min_size=1, max_size=8),
        st.lists(WORDS, max_size=12),
        st.integers(1, 200),
    )
    def check(endings, beginning, budget):
        prompts = [" ".join(beginning + ending) for ending in endings]
        scorer.token_budget = budget
        together = scorer(prompts)
        alone = [scorer([prompt]) for prompt in prompts]
        for field in ("scores", "values"):
            each = torch.cat([getattr(one, field) for one in alone])
            torch.testing.assert_close(getattr(together, field), each, rtol=0, atol=1e-4)

    with torch.no_grad():
        check()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(1, 300), st.integers(0, 100))
def test_batches_hold_every_row_once_and_keep_the_budget(lengths, budget, overhead):
    found = batches(lengths, budget, overhead)
    assert sorted(row for batch in found for row in batch) == list(range(len(lengths)))
    sizes = [len(batch) * max(lengths[row] for row in batch) for batch in found]
    assert all(size <= budget or len(batch) == 1 for size, batch in zip(sizes, found, strict=True))


def test_a_batchs_fixed_cost_decides_how_many_there_are():
    lengths = [10] * 5 + [50] * 5
    assert [len(batch) for batch in batches(lengths, 10_000, overhead=0)] == [5, 5]
    assert [len(batch) for batch in batches(lengths, 10_000, overhead=500)] == [10]


def test_values_and_action_heads_are_those_of_the_original():
    scorer = golden_heads(ActionScorer(build("tiny_t5"), tokenizer(), ACTIONS, action_head=True))
    scores, values = scorer(PROMPTS)
    torch.testing.assert_close(values, torch.tensor(T5["value/minibatch=192"]), rtol=0, atol=1e-5)
    torch.testing.assert_close(scores, torch.tensor(T5["policy_head_logits/minibatch=192"]), rtol=0, atol=1e-5)
    scoring = golden_heads(ActionScorer(build("tiny_t5"), tokenizer(), ACTIONS))
    torch.testing.assert_close(scoring(PROMPTS).values, values, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["tiny_llama", "gpt2"])
def test_a_causal_models_value_reads_the_prompts_last_token(kind):
    model = build(kind)
    scorer = ActionScorer(model, tokenizer(), ACTIONS, seed=1)
    ids = tokenizer()(PROMPTS[:1], add_special_tokens=False, return_tensors="pt")["input_ids"]
    hidden = model(input_ids=ids, output_hidden_states=True).hidden_states[-1][:, -1]
    torch.testing.assert_close(scorer(PROMPTS).values[:1], scorer.value_head(hidden)[:, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_the_same_for_any_cut_into_batches(kind):
    scorer = ActionScorer(build(kind), tokenizer(), ACTIONS)
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 6))).float()
    inputs = [*PROMPTS, PROMPTS[1], PROMPTS[3]]

    def loss(index, scores, values):
        return (weights[index] * scores.log_softmax(-1)).sum() / 7 + (values**2).sum() / 7

    whole = loss(torch.arange(7), *scorer(inputs))
    whole.backward()
    expected = gradients(scorer)
    for budget in (1, 120, TOKEN_BUDGET):
        scorer.zero_grad()
        scorer.token_budget = budget
        assert scorer.backward(inputs, loss).item() == pytest.approx(whole.item(), rel=1e-4)
        assert_same_gradients(expected, gradients(scorer))


PROJECTIONS = ["encoder.block.0.layer.0.SelfAttention.q", "model.layers.0.self_attn.q_proj"]
PROJECTIONS.append("transformer.h.0.attn.c_attn")


@pytest.mark.parametrize(("kind", "projection"), zip(KINDS, PROJECTIONS, strict=True))
def test_checkpointed_activations_are_read_twice_and_give_the_same_gradient(kind, projection):
    def trained(checkpointed):
        model, calls = build(kind), []
        if checkpointed:
            model.activation_checkpointing_enable({"use_reentrant": False})
        scorer = ActionScorer(model, tokenizer(), ACTIONS).train()
        model.get_submodule(projection).register_forward_pre_hook(lambda *_: calls.append(1))
        scorer.backward(PROMPTS, lambda index, scores, values: scores.sum() + values.sum())
        return gradients(scorer), len(calls)

    (plain, once), (checkpointed, twice) = trained(False), trained(True)
    assert_same_gradients(plain, checkpointed)
    assert (once, twice) == (1 if kind == "tiny_t5" else 2, 2)  # causal: the common beginning is a pass of its own


def test_training_drops_nothing_unless_asked_to():
    steady = ActionScorer(build("tiny_t5"), tokenizer(), ACTIONS).train()
    assert torch.equal(steady(PROMPTS).scores, steady(PROMPTS).scores)
    noisy = ActionScorer(build("tiny_t5"), tokenizer(), ACTIONS, dropout=True)
    assert torch.equal(noisy(PROMPTS).scores, noisy(PROMPTS).scores)
    noisy.train()
    assert not torch.equal(noisy(PROMPTS).scores, noisy(PROMPTS).scores)


def test_scoring_in_the_middle_of_training_leaves_the_model_in_training():
    model = build("tiny_t5").train()
    score_actions(model, tokenizer(), PROMPTS[:1], ACTIONS)
    assert model.training


def test_a_temperature_divides_the_scores():
    model = build("tiny_llama")
    plain = score_actions(model, tokenizer(), PROMPTS, ACTIONS)
    torch.testing.assert_close(score_actions(model, tokenizer(), PROMPTS, ACTIONS, temperature=4.0), plain / 4)


def test_equal_prompts_are_read_once():
    model, rows = build("tiny_t5"), []
    scorer = ActionScorer(model, tokenizer(), ACTIONS)
    model.encoder.block[0].register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    scores = scorer([PROMPTS[0], PROMPTS[1], PROMPTS[0], PROMPTS[0]]).scores
    assert sum(rows) == 2
    assert torch.equal(scores[0], scores[2]) and not torch.equal(scores[0], scores[1])


@pytest.mark.parametrize("kind", ["tiny_t5", "tiny_llama"])
def test_with_adapters_only_they_and_the_heads_are_trained_and_stored(kind):
    def scorer(seed):
        return ActionScorer(add_lora(build(kind), Lora(rank=4), seed), tokenizer(), ACTIONS, seed=seed)

    trained, other = scorer(0), scorer(1)
    torch.testing.assert_close(trained(PROMPTS).scores, score_actions(build(kind), tokenizer(), PROMPTS, ACTIONS))
    optimizer = torch.optim.SGD([p for p in trained.parameters() if p.requires_grad], lr=1e-3)
    for _ in range(2):
        trained.zero_grad()
        trained.backward(PROMPTS, lambda index, scores, values: scores[:, 0].sum() + values.sum())
        optimizer.step()
    assert all("lora" in name or "value_head" in name for name in trained.state_dict())
    other.load_state_dict(load(save(trained.state_dict())))
    assert torch.equal(other(PROMPTS).scores, trained(PROMPTS).scores)
    with trained.model.disable_adapter():
        reference = score_actions(build(kind), tokenizer(), PROMPTS, ACTIONS)
        torch.testing.assert_close(trained(PROMPTS).scores, reference)


def stepped(frozen, budget=2**20):
    """Scores before and after a step of the last layer's adapters, with kept states of the layers below or without."""
    model = add_lora(build("tiny_llama"), Lora(rank=4, layers=1), 0)
    with pytest.MonkeyPatch.context() as bounded:
        bounded.setattr(kept_states, "KEPT_BYTES", budget)
        scorer = ActionScorer(model, tokenizer(), ACTIONS, frozen_layers=frozen, token_budget=200)
        first = scorer(PROMPTS[:2]).scores  # among other prompts than below
        scorer.backward(PROMPTS, lambda _, scores, values: scores[:, 0].sum() + values.sum())
        trained = {name: p for name, p in scorer.model.named_parameters() if p.requires_grad}
        assert trained and all(".layers.1." in name and "lora" in name for name in trained)
        torch.optim.SGD(trained.values(), lr=1e-2).step()
        return first.detach(), scorer(PROMPTS).scores.detach()


def test_kept_states_of_frozen_layers_leave_scores_and_a_step_as_they_are():
    (plain_first, plain), (first, kept) = stepped(0), stepped(1)
    torch.testing.assert_close(first, plain_first)
    torch.testing.assert_close(kept, plain)
    assert not torch.allclose(kept[:2], first)


@pytest.mark.parametrize("budget", [0, 20_000])
def test_what_is_kept_changes_no_byte_of_a_result(budget):
    for own, other in zip(stepped(1), stepped(1, budget), strict=True):
        assert torch.equal(own, other)


def test_kept_states_are_bounded_and_do_not_depend_on_other_prompts(monkeypatch):
    branches, start = branch([[1, 2], [3]], None), (*range(5, 35),)  # longer than what is read apart
    rows = [(*start, *range(40, 70)), (*start, *range(50, 72)), (8,)]
    together = KeptStates(build("tiny_llama"), 1).features(rows, branches)
    alone = [KeptStates(build("tiny_llama"), 1).features([row], branches)[0] for row in rows]
    assert torch.equal(together, torch.stack(alone))
    monkeypatch.setattr(kept_states, "KEPT_BYTES", 2 * together[0].nbytes)
    bounded = KeptStates(build("tiny_llama"), 1)
    bounded.features(rows, branches)
    assert bounded.size == 2 * together[0].nbytes


def test_features_on_disk_are_the_same_bytes_and_are_not_computed_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    branches, rows = branch([[1, 2], [3]], None), [tuple(range(5, 35)), (8,)]
    fresh = KeptStates(build("tiny_llama"), 1).features(rows, branches)
    assert torch.equal(KeptStates(build("tiny_llama"), 1, stored=True).features(rows, branches), fresh)
    other = build("tiny_llama")
    next(other.parameters()).data.add_(1)  # weights of its own, so states of its own
    assert not torch.equal(KeptStates(other, 1, stored=True).features(rows, branches), fresh)
    monkeypatch.setattr(KeptStates, "_states", None)
    assert torch.equal(KeptStates(build("tiny_llama"), 1, stored=True).features(rows, branches), fresh)
    with pytest.raises(TypeError, match="not callable"):
        KeptStates(build("tiny_llama"), 2, stored=True).features(rows, branches)


@pytest.mark.parametrize("layer", [1, 2])
def test_features_are_the_states_of_the_model_cut_off_after_that_layer(layer):
    model = build("tiny_llama")
    scorer = ActionScorer(model, tokenizer(), ACTIONS, frozen_layers=layer, features=True, action_head=True)
    seen = []
    scorer.value_head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    scorer(PROMPTS)
    states = torch.cat(seen)
    for prompt in PROMPTS:
        row = torch.tensor([scorer.tokens([prompt], [ACTIONS[0]])[0][0]])
        ends = []
        with model.model.layers[layer - 1].register_forward_hook(lambda _, __, made, ends=ends: ends.append(made)):
            model(input_ids=row)
        expected = model.model.norm(ends[0])[0, -1]
        assert (states - expected).abs().amax(1).min() < 1e-5


@pytest.mark.parametrize(
    ("kind", "layers", "options", "line"),
    [
        ("tiny_t5", 1, {}, "expected a causal model with decoder layers"),
        ("tiny_llama", 3, {}, "expected 1 to 2 frozen layers, got 3"),
        ("tiny_llama", 1, {"dropout": True}, "got dropout"),
    ],
)
def test_layers_that_cannot_be_frozen_are_refused(kind, layers, options, line):
    with pytest.raises(GroundlabError, match=line):
        ActionScorer(build(kind), tokenizer(), ACTIONS, frozen_layers=layers, **options)


@pytest.mark.parametrize(
    ("actions", "options", "line"),
    [
        (["turn left", "turn left"], {}, "'turn left' and 'turn left' are the same tokens; keep one"),
        (["turn left", " "], {}, "empty action"),
        ([], {}, "empty action"),
        (["turn left", "dance"], {}, "no word for action 'dance'"),
        (["turn left"], {"rule": "logprobs"}, "unknown scoring rule 'logprobs'; did you mean 'logprob'"),
    ],
)
def test_actions_that_cannot_be_scored_are_told(actions, options, line):
    with pytest.raises(GroundlabError, match=line):
        score_actions(build("tiny_t5"), tokenizer(), PROMPTS, actions, **options)


def test_prompts_that_cannot_be_read_are_told():
    with pytest.raises(GroundlabError, match="261 tokens, the model reads 256; shorten"):
        score_actions(build("gpt2"), tokenizer(), ["go " * 260], ACTIONS)
    assert score_actions(build("tiny_t5"), tokenizer(), ["go " * 600], ACTIONS).isfinite().all()
    for prompts in ([], ["go", ""]):
        with pytest.raises(GroundlabError, match="without any token"):
            score_actions(build("tiny_llama"), tokenizer(), prompts, ACTIONS)


# Blanks and beginnings, as a tokenizer's convention has them.

LLAMA3 = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXTS = ["Goal of the agent: go to the red ball", "Action 0: turn left\nAction 1: turn right\n", "pick up, drop:\n"] * 9


def words_of(kind, bos=False):
    """A tokenizer in the manner of GPT-2, Llama 3 or Llama 2."""
    split = [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    parts = {"gpt2": pre_tokenizers.ByteLevel(False), "llama2": pre_tokenizers.Metaspace()}
    made = Tokenizer(BPE())
    made.pre_tokenizer = parts.get(kind) or pre_tokenizers.Sequence(split)
    alphabet = [] if kind == "llama2" else pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(special_tokens=["<s>", "</s>"], initial_alphabet=alphabet))
    if bos:
        made.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="</s>")


def read_whole(model, words, prompt, action, bos):
    """The log-probability of prompt + action, as one text, after the tokens of the prompt without its blanks."""
    stem, whole, own = words([prompt.rstrip(), prompt + action, action], add_special_tokens=False)["input_ids"]
    whole = whole if prompt != prompt.rstrip() else stem + own
    start = next((n for n, pair in enumerate(zip(whole, stem, strict=False)) if pair[0] != pair[1]), len(stem))
    logits = model(input_ids=torch.tensor([[0] * bos + whole])).logits[0, start + bos - 1 : -1].log_softmax(-1)
    return logits[range(len(logits)), whole[start:]].sum().item()


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("kind", ["gpt2", "llama3"])
def test_byte_level_tokenizers_read_a_prompts_blanks_with_the_action(kind, bos):
    model, words, actions = build("gpt2"), words_of(kind, bos), ["turn left", "turn right", "pick up", "1"]
    ends = ["", " ", "  ", "\n", " \n ", "\n\n", "\t"]
    prompts = [f"Goal: the red ball\nAction {number}:{end}" for number in range(2) for end in ends]
    scorer = ActionScorer(model, words, actions)
    scores = scorer(prompts).scores
    expected = [[read_whole(model, words, prompt, action, bos) for action in actions] for prompt in prompts]
    torch.testing.assert_close(scores, torch.tensor(expected), rtol=0, atol=1e-4)
    scores.sum().backward()
    whole = gradients(scorer)
    scorer.zero_grad()
    scorer.backward(prompts, lambda index, scores, values: scores.sum())
    assert_same_gradients(whole, gradients(scorer))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("gpt2", {"move_blanks": False}),
        ("gpt2", {"rule": "prob_softmax"}),
        ("gpt2", {"rule": "logit_sum"}),
        ("llama2", {}),
    ],
)
def test_elsewhere_blanks_stay_with_the_prompt_unless_asked_for(kind, options):
    words, given = words_of(kind), (["Action 0: "], ["turn left"])
    apart = tuple(words(text, add_special_tokens=False)["input_ids"] for text in ("Action 0: ", "turn left"))
    assert ActionScorer(build("gpt2"), words, ACTIONS, **options).tokens(*given) == [apart]
    prompt, action = ActionScorer(build("gpt2"), words, ACTIONS, **options | {"move_blanks": True}).tokens(*given)[0]
    assert prompt + action == words("Action 0: turn left", add_special_tokens=False)["input_ids"]
    own = ActionScorer(build("tiny_llama"), tokenizer(), ACTIONS)
    assert not own._move_blanks and not own._beginning, "the models that ship read as before"


def test_twins_are_actions_of_the_same_tokens_as_they_are_scored():
    words = words_of("gpt2")
    words.backend_tokenizer.normalizer = normalizers.Replace(Regex(" +"), " ")
    with pytest.raises(GroundlabError, match="'drop' and ' drop' are the same tokens"):
        score_actions(build("gpt2"), words, ["Action 0: "], ["drop", " drop"])


def test_prompts_begin_as_the_tokenizer_has_it_and_once():
    for prompt, bos in (("go", True), ("<s>go", True), ("go", False)):
        rows = ActionScorer(build("gpt2"), words_of("gpt2", bos), ACTIONS)._rows([prompt])
        assert rows[0].tokens.count(0) == bos
