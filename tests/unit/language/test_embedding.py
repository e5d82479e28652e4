"""Texts become vectors of length 1, each text once, by an encoder from this machine's disk."""

import numpy as np
import pytest

from groundlab.assets import MODELS
from groundlab.core.errors import GroundlabError
from groundlab.language.sentence_embedding import Embedder, load_encoder

OURS = MODELS / "quick-t5-s0"
TEXTS = ["go to the red ball", "you see a wall 2 steps left", "go to the red ball", "look"]


def test_a_vector_does_not_depend_on_the_texts_beside_it():
    encode = load_encoder(OURS)
    together, alone = encode(TEXTS), np.concatenate([encode([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)


def test_our_own_model_finds_what_reads_alike_nearer_than_what_does_not():
    embed = Embedder(load_encoder(OURS))
    ball, other_ball, wall = embed(["go to the red ball", "go to the blue ball", "you see a wall 2 steps left"])
    assert ball @ other_ball > ball @ wall


def test_each_text_is_encoded_once():
    encoded = []

    def encode(texts):
        encoded.extend(texts)
        return np.array([[float(len(text)), 1.0] for text in texts])

    embed = Embedder(encode)
    vectors = embed(TEXTS)
    assert vectors[:, 0].tolist() == [len(text) for text in TEXTS]
    embed(TEXTS[::-1])
    assert sorted(encoded) == sorted(set(TEXTS))


def test_an_encoder_that_is_not_here_is_one_clear_line():
    with pytest.raises(GroundlabError, match="fetch it with: hf download nobody/nothing"):
        load_encoder("nobody/nothing")
