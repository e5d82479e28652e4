"""Write the two models of the golden runs, `talker` and `reader`: python tests/golden/runs/make_models.py"""

import shutil
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HERE = Path(__file__).parent
HEAD = "def compute_reward(obs, past_obs, past_actions):\n"


def program(body: str, before: str = "") -> str:
    return f"```python\n{before}{HEAD}    {body}\n```\n"


WORDS = (
    "a an the and at to of in on You see wall door key ball box red green blue purple yellow grey left "
    "right forward step steps 1 2 3 4 5 turn pick up drop toggle do nothing front object Step Current "
    "Agent history Sample reward computed error Traceback A B Segment cow tree water grass sand stone "
    "face health food drink energy Improve goals"
)
WORD_LIST = WORDS.split()
REPLIES = [
    "Nothing comes to mind.",
    "- Go to the red ball.\n- Go to the blue box.\n- Go to the red ball.\n",
    "* Face a key.\n1. Look around.\n- Walk to the wall.\n",
    "- Turn left.\n",
    "-  \n- Collect wood.\n2) Drink water.\n",
    "[Rank]\nA > B",
    "[Rank]\nB > A",
    "[Rank]\nA = B",
    "[Rank]\nA > B OR B > A OR A = B\n[Rank]\nB<A",
    program(
        "things = np.isin(obs[0], [5, 6, 7])\n    return float(things.sum()) / 10, {'things': float(things.sum())}"
    ),
    program(
        "turns = int(np.sum(past_actions < 2))\n    return 0.1 * turns + float(obs[0, 3, 5] > 1), {'turns': turns}"
    ),
    program("return float(obs[0, 3, 5] == OBJECT_TO_IDX['wall']), {}"),
    program("return float(obs[1].sum() % 7), {}"),
    program("return float(np.any(obs != past_obs[-1])), {'moved': 1}"),
    program("return 1.0, {}"),
    program("return float('nan'), {}"),
    program("return 1e6, {}"),
    program("return obs, {}"),
    program("return np.zeros((60_000, 10_000)).sum(), {}"),
    program("return [1][5], {}"),
    program("return 0.0, {}", "import os\n"),
    program("return 1 / 0, {}", "1 / 0\n"),
    "```python\nx = 1\n```\nor\n"
    + program("seen = obs[0].astype(np.float32)\n    return float(seen.mean()), {'seen': np.array(0.5)}"),
]


def make_tokenizer(names: list[str], **options: object) -> PreTrainedTokenizerFast:
    """Words of a text are tokens; what else stands there is not read."""
    tokenizer = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+"), "removed", invert=True)
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", **options)


def make_talker(folder: Path) -> None:
    names = ["[UNK]", "</s>", *WORD_LIST, *REPLIES]
    tokenizer = make_tokenizer(names, eos_token="</s>", pad_token="</s>", clean_up_tokenization_spaces=False)
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 1}
    config = LlamaConfig(
        vocab_size=len(names), max_position_embeddings=8192, tie_word_embeddings=False, **sizes, **ends
    )
    torch.manual_seed(0)
    model, first = LlamaForCausalLM(config).float(), len(names) - len(REPLIES)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim == 2:
                weights.normal_(0, 2.0 if "_proj" in name and "attn" in name else 0.5)
        # One direction of the states is the same for all tokens, another one tells replies from words.
        embeddings, head = model.model.embed_tokens.weight, model.lm_head.weight
        embeddings[:, :2] = 0
        embeddings[:, 0] = 4
        embeddings[first:, 1] = 8
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            model.get_parameter(f"model.layers.0.{name}.weight")[:2] = 0
        head[:] *= 0.5
        head[:, :2] = 0
        head[:first, 0] = -200  # a word is never written,
        head[1, 0], head[1, 1] = -80, 80  # and the end only after a reply
    model.generation_config.pad_token_id = 1
    model.save_pretrained(folder)


def make_reader(folder: Path) -> None:
    names = ["[PAD]", "[UNK]", *WORD_LIST]
    read = ["input_ids", "attention_mask"]
    make_tokenizer(names, pad_token="[PAD]", model_input_names=read).save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(names), max_position_embeddings=48, type_vocab_size=1, initializer_range=0.5, **sizes
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


if __name__ == "__main__":
    for name, make in (("talker", make_talker), ("reader", make_reader)):
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir()
        make(HERE / name)
        (HERE / name / "model.safetensors").chmod(0o644)
