"""The ledger: nothing is asked twice, whoever asks; what is missing is named (damage: test_ledger_lines.py)."""

from pathlib import Path

import pytest
from fixed_replies import FixedReplies

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Ledger, Recorded, Recording, Reply, Sampling, Tokens
from groundlab.language.chat.factory import ChatSettings, chat_model

QUESTION = [{"role": "system", "content": "s"}, {"role": "user", "content": "what now?"}]


def test_other_sampling_messages_or_models_are_other_questions(tmp_path):
    ledger, maker = Ledger(tmp_path / "ledger.jsonl"), FixedReplies(["reply 1", "reply 2"])
    recording = Recording(maker, ledger, "test")
    recording.reply(QUESTION, Sampling())
    recording.reply(QUESTION, Sampling(temperature=1.0, seed=3))
    recording.reply(QUESTION[1:], Sampling())
    assert len(maker.prompts) == 3
    with pytest.raises(GroundlabError, match=r"no reply of 'other' to \"what now\?\".*--set planner=scripted"):
        Recorded("other", ledger).reply(QUESTION, Sampling())


def test_a_read_only_ledger_is_replayed_and_nothing_is_written_beside_it(tmp_path):
    file = tmp_path / "shipped" / "ledger.jsonl"
    Ledger(file).add("fixed", QUESTION, Sampling(), "reply 1", "test")
    for other in file.parent.iterdir():
        if other != file:
            other.unlink()
    assert Recorded("fixed", Ledger(file)).reply(QUESTION, Sampling()) == "reply 1"
    assert list(file.parent.iterdir()) == [file]


def test_accounts_are_kept_by_model_and_a_rule_takes_nothing(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.add("big", QUESTION, Sampling(), Reply("a", Tokens(100, 20), 0.5), "openai")
    ledger.add("big", QUESTION, Sampling(1.0, 1), Reply("b", Tokens(10, 2), 0.25), "openai")
    ledger.add("mute", QUESTION, Sampling(), Reply("c"), "openai")
    ledger.add("rule", QUESTION, Sampling(), "d", "scripted")
    for read in (ledger, Ledger(ledger.path)):
        big = read.accounts["big"]
        assert (big.replies, big.prompt_tokens, big.completion_tokens, big.cost) == (2, 110, 22, 0.75)
        assert (read.accounts["mute"].uncounted, read.accounts["rule"].uncounted) == (1, 0)
        assert (read.account().replies, read.account().tokens, read.account().uncounted) == (4, 132, 1)


def test_above_temperature_0_draws_and_seeds_tell_questions_apart():
    settings, other = ChatSettings(temperature=0.7), ChatSettings(temperature=0.7, seed=1)
    seeds = [chosen.sampling(draw).seed for chosen in (settings, other) for draw in (*range(500), 2**40)]
    assert len(set(seeds)) == len(seeds) and all(0 <= seed < 2**31 for seed in seeds)
    assert settings.sampling(3) == settings.sampling(3)
    assert ChatSettings().sampling(3) == ChatSettings().sampling(4) == Sampling(0.0, None, 128)


@pytest.mark.parametrize(
    ("maker", "settings", "ledger", "told"),
    [
        ("openai", {}, "l.jsonl", "openai needs a model; give --model NAME"),
        ("local", {"model": "m"}, None, "local needs a ledger.*give --ledger FILE"),
        ("recorded", {"model": "m"}, "l.jsonl", "recorded needs the ledger 'l.jsonl', which does not exist"),
        ("openai", {"model": "m"}, "l.jsonl", "no server is named; give --base-url"),
        ("local", {"model": "no/such"}, "l.jsonl", "no/such is not on this machine; fetch it with: hf download"),
    ],
)
def test_what_is_missing_is_named(tmp_path, monkeypatch, maker, settings, ledger, told):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(GroundlabError, match=told):
        chat = chat_model(maker, ChatSettings(**settings), ledger and Path(ledger))
        chat.reply(QUESTION, Sampling())
