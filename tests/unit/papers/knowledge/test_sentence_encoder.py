"""BK-Goal reads sentences with any encoder of transformers that a folder holds, as sentence-transformers would."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from groundlab.language.sentence_embedding import load_encoder
from groundlab.papers.knowledge import agent
from groundlab.papers.knowledge.settings import HOME

pytestmark = pytest.mark.usefixtures("own_cache")

WORDS = "you see a the wall red blue green ball box key step steps forward left right turn go to choose action"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def word_pieces() -> PreTrainedTokenizerFast:
    """BERT's kind of tokenizer, of few words."""
    letters = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"] + [*"abcdefghijklmnopqrstuvwxyz0123456789.:,"]
    vocabulary = {piece: place for place, piece in enumerate(dict.fromkeys([*SPECIAL, *WORDS.split(), *letters]))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A folder as `save_pretrained` leaves it, with what sentence-transformers lays beside it."""
    folder, tokenizer = tmp_path_factory.mktemp("encoders") / "tiny-sentences", word_pieces()
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokenizer), **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Transformer", "path": ""}]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    return folder


def test_a_sentence_is_the_mean_of_its_tokens_the_first_and_last_included_at_length_1(encoder):
    texts = ["You see a red ball 2 steps left", "Go to the key"]
    model, tokenizer = BertModel.from_pretrained(encoder).eval(), PreTrainedTokenizerFast.from_pretrained(encoder)
    expected = []
    for text in texts:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        assert ids[0, 0] == tokenizer.cls_token_id and ids[0, -1] == tokenizer.sep_token_id
        with torch.no_grad():
            mean = model(input_ids=ids).last_hidden_state[0].mean(0).numpy()
        expected.append(mean / np.linalg.norm(mean))
    encode = load_encoder(encoder)
    np.testing.assert_allclose(encode(texts), expected, atol=1e-5)
    assert np.isfinite(encode(["go " * 2000])).all(), "more than the model reads"


def test_its_files_belong_to_the_runs_identity(encoder):
    given = {"form": "goals", "source": str(HOME / "goals"), "encoder": str(encoder), "pooling": "sentences"}
    files = {file.name for file in agent.Settings.model_validate(given).inputs().values()}
    assert {"model.safetensors", "tokenizer.json", "config.json", "goal_library.json", "arrays.npz"} <= files
