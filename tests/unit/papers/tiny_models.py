"""Language models of a few thousand weights: a T5 and a Llama as pretraining leaves them, a Llama as a GGUF file."""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

from groundlab.language import corpus, tokenizer
from groundlab.language.architecture import Architecture, build
from groundlab.language.chat_format import DialogueWriter
from groundlab.language.corpus.scenes import ACTIONS
from groundlab.language.pretraining import load_recipe

T5 = Architecture(width=32, feed_forward=32, heads=2, head_width=8, layers=2)
LLAMA = Architecture(family="llama", width=32, feed_forward=32, heads=2, head_width=16, layers=2)
LESSONS = 60  # gradient steps: the Llama then answers validly about half the time


def _texts(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [f"{sample.input} {sample.target}" for sample in (corpus.sample(rng) for _ in range(count))]


def write_t5(folder: Path) -> Path:
    """Weights, tokenizer, and recipe.json with a temperature of 2, of a T5 that knows nothing yet; the folder."""
    words = tokenizer.train([*_texts(3000), *["turn left right go forward pick up drop toggle"] * 40], 500)
    words.save_pretrained(folder)
    model = build(T5, len(words), seed=77)
    with torch.no_grad():  # so that "pretrained" is no fresh draw of any seed
        for parameter in model.parameters():
            parameter.mul_(1.5)
    model.save_pretrained(folder)
    recipe = load_recipe("smoke-t5").model_dump() | {"architecture": T5.model_dump()}
    (folder / "recipe.json").write_text(json.dumps({"recipe": recipe, "temperature": 2.0}))
    return folder


def write_chat_llama(folder: Path) -> Path:
    """Weights and tokenizer of a Llama that answers with any action, more often than not; the folder."""
    texts = [*_texts(600), *[" ".join((*ACTIONS, "final answer:"))] * 40]
    words = tokenizer.train(texts, 400, dialogue=True)
    words.save_pretrained(folder)
    model = build(LLAMA, len(words), seed=77)
    _teach(model, words)
    model.save_pretrained(folder)
    return folder


def write_gguf(file: Path, kind: str = "F32") -> LlamaForCausalLM:
    """Write a Llama with random weights as llama.cpp does, in blocks of a kind ("Q8_0"), with SmolLM2's kind of
    tokenizer: a token for each byte, one for two blanks, and ChatML's marks. Return it as it was before.
    """
    import gguf  # here: other tests need no such package

    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *bytes_to_unicode().values(), "ĠĠ"]
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 4096}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokens), **sizes, **heads)).eval()
    config, writer = model.config, gguf.GGUFWriter(file, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * 257)
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.named_parameters():
        rows = weight.detach().numpy()
        if name.endswith(("q_proj.weight", "k_proj.weight")):  # whose halves llama.cpp interleaves
            rows = rows.reshape(4 if "q_proj" in name else 2, 2, 4, 32).swapaxes(1, 2).reshape(rows.shape)
        blocks = gguf.GGMLQuantizationType[kind if rows.ndim > 1 else "F32"]
        theirs = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(theirs, gguf.quantize(np.ascontiguousarray(rows), blocks), raw_dtype=blocks)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _teach(model, words) -> None:
    """Say an action after any prompt: replies, with or without the marker, after a few sentences about walls."""
    writer, rng = DialogueWriter(words), np.random.default_rng(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(LESSONS):
        seen = f"You see a wall {rng.integers(1, 7)} steps {rng.choice(['left', 'right', 'forward'])}"
        prompt = writer.prompt([{"role": "system", "content": "go"}, {"role": "user", "content": seen}])
        rows = []
        for action in ACTIONS:
            said = action if rng.random() < 0.5 else f"final answer: {action}"
            rows.append([*prompt, *writer.message("assistant", said)[1:]])
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        labels = ids.masked_fill(ids == 0, -100)
        labels[:, : len(prompt)] = -100
        optimizer.zero_grad()
        model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss.backward()
        optimizer.step()
