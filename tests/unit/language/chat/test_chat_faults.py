"""Faults of a chat server: each ends in one clear line or in a reply, in time, with a whole ledger."""

import json
import random
import re
import string
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from chat_faults import ELSEWHERE, FAULTS, TIMEOUT, Fault
from chat_server import ChatServer, kept, ok

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Budget, Ledger, Recording, Sampling, connection
from groundlab.language.chat.openai_client import Server
from groundlab.language.chat.redaction import redact

QUESTION = [{"role": "user", "content": "what now?"}]
KEY = "sk-d0-n0t-te11-Anyb0dy"
LONGEST = 480  # characters of an error line
LONGEST_WAIT = 60  # seconds on a busy machine; servers that never end last twice as long


class Outcome(NamedTuple):
    """What became of a question."""

    reply: str | None
    line: str
    requests: int
    seconds: float
    ledger: str


def ask(fault: Fault, folder) -> Outcome:
    file, reply, line = folder / "ledger.jsonl", None, ""
    with ChatServer(ok("from elsewhere")) as other:
        answers = [
            answer.replace(ELSEWHERE.encode(), other.base_url.encode()) if isinstance(answer, bytes) else answer
            for answer in fault.answers
        ]
        with ChatServer(*answers) as server:
            patience = {"timeout": TIMEOUT if fault.waits else 60.0, "attempts": 2, "backoff": 0.01}
            maker = Server("tiny", connection.Connection(server.base_url, KEY, **patience))
            began = time.monotonic()
            try:
                reply = Recording(maker, Ledger(file), f"openai {server.base_url}").reply(QUESTION, Sampling())
            except GroundlabError as error:
                line = str(error)
            seconds = time.monotonic() - began
            ledger = file.read_text() if file.exists() else ""
            assert not other.requests
            return Outcome(reply, line, len(server.requests), seconds, ledger)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Of all faults; those that only wait do so side by side."""
    waiting = [name for name in FAULTS if FAULTS[name].waits]
    folders = {name: tmp_path_factory.mktemp("fault") for name in FAULTS}
    with ThreadPoolExecutor(len(waiting)) as pool:
        futures = {name: pool.submit(ask, FAULTS[name], folders[name]) for name in waiting}
    return lambda name: futures[name].result() if name in futures else ask(FAULTS[name], folders[name])


def pieces_of_the_key(text: str) -> list[str]:
    """Eight letters of it in a row, whatever their case and whatever stands between."""
    letters, said = (re.sub("[^a-z0-9]", "", each.lower()) for each in (KEY, text))
    return [letters[start : start + 8] for start in range(len(letters) - 7) if letters[start : start + 8] in said]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_in_one_line_or_a_reply(name, outcomes):
    fault, outcome = FAULTS[name], outcomes(name)
    assert outcome.reply == fault.reply
    assert outcome.requests == fault.requests or fault.waits  # on a busy machine the clock runs out before it is asked
    if fault.line is not None:
        times = "asked once" if fault.requests == 1 else "asked 2 times"
        assert times in outcome.line and re.search(fault.line, outcome.line), outcome.line
        assert "'tiny'" in outcome.line and "http://127.0.0.1:" in outcome.line
        assert len(outcome.line) < LONGEST and outcome.line.isprintable()
    assert not pieces_of_the_key(outcome.line + outcome.ledger)
    assert outcome.seconds < LONGEST_WAIT
    lines = [json.loads(line) for line in outcome.ledger.split("\n")[:-1]]
    assert [line["reply"] for line in lines] == ([] if fault.reply is None else [fault.reply])
    assert all((line["tokens"] is not None) == fault.counted and line["cost"] >= 0 for line in lines)
    assert not outcome.ledger or outcome.ledger.endswith("\n")


def test_a_server_that_accepts_nobody_is_given_up_in_time():
    with ChatServer(silent=True) as server:
        maker = Server("tiny", connection.Connection(server.base_url, timeout=0.5, attempts=1))
        began = time.monotonic()
        with pytest.raises(GroundlabError, match=r"asked once: no answer within 0\.5 s"):
            maker.reply(QUESTION, Sampling())
        assert time.monotonic() - began < LONGEST_WAIT


def test_https_where_there_is_none_is_told():
    with ChatServer(ok()) as server:
        maker = Server("tiny", connection.Connection(server.base_url.replace("http", "https"), timeout=30, attempts=1))
        with pytest.raises(GroundlabError, match=r"no safe connection \(.*SSL.*is it https"):
            maker.reply(QUESTION, Sampling())


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "127.0.0.1:1"])
def test_a_host_that_nobody_has_is_one_line(host):
    with pytest.raises(GroundlabError, match="asked 2 times: no server answers there"):
        maker = Server("tiny", connection.Connection(f"http://{host}/v1", attempts=2, backoff=0.01))
        maker.reply(QUESTION, Sampling())


def test_counts_that_nobody_can_believe_do_not_stretch_a_budget(tmp_path):
    """Five million tokens below zero were once believed, and no budget ever ended."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with ChatServer(*FAULTS["tokens -5000000"].answers) as server:
        maker = Server("tiny", connection.Connection(server.base_url, prices=connection.Prices(1.0, 1.0)))
        for budget in (Budget(tokens=100), Budget(cost=1.0)):
            Recording(maker, ledger, "openai", budget).reply(QUESTION, Sampling())
            with pytest.raises(GroundlabError, match="1 replies that nobody counted"):
                Recording(maker, ledger, "openai", budget).reply(QUESTION * 2, Sampling())
        assert ledger.account().tokens == 0 and ledger.account().cost == 0.0


def test_the_bounds_belong_to_an_attempt_and_not_to_the_connection_that_attempts_share():
    answer = ok()
    with ChatServer(kept(answer)) as server:
        maker = Server("tiny", connection.Connection(server.base_url, timeout=2.0, longest_answer=len(answer)))
        for pause in (0.8, 0.8, 0.8, 0.0):
            assert maker.reply(QUESTION, Sampling()) == "{explore}"
            time.sleep(pause)
        assert len(server.requests) == 1  # of the first; the others came on its connection


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("EMPTY", "the box is empty, Empty or emptier"),
        ("not-needed", "the key is not needed"),
        ("sk-no-key-required", "no key required: the door is open"),
        (None, KEY),
        (KEY, ""),
    ],
)
def test_words_that_are_no_secret_are_left_in_replies(key, text):
    """Servers without keys are given words for one; a reply may use them."""
    assert redact(text, key) == text


@pytest.mark.parametrize("size", [9, 22, 51, 164])
def test_no_eight_letters_of_a_key_are_left_whatever_stands_around_them(size):
    key = "".join(random.Random(size).choices(string.ascii_letters + string.digits + "-_", k=size - 1)) + "7"
    letters = [letter for letter in key if letter.isalnum()]
    for text in (key, key.upper(), key[1:], key[:-1], f"a{key}b{key[2:]}c", " ".join(key), "\u200b".join(letters)):
        kept = re.sub("[^a-z0-9]", "", redact(text, key).replace("[key]", "#").lower().replace("#", " "))
        said = "".join(letters).lower()
        assert len(letters) <= 8 or not [at for at in range(len(said) - 7) if said[at : at + 8] in kept]
