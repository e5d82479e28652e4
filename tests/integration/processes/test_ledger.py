"""The ledger between processes: two share one, and no question is paid twice."""

import json
import subprocess
import sys
import time

import chat_server as serving

ASKS = """
import sys
from pathlib import Path
from groundlab.language.chat import Ledger, Recording, Sampling, connection
from groundlab.language.chat.openai_client import Server

file, base_url, first = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
recording = Recording(Server("tiny", connection.Connection(base_url)), Ledger(file), "openai")
print("ready", flush=True)
sys.stdin.readline()
for turn in range(20):
    number = (first + turn) % 20
    reply = recording.reply([{"role": "user", "content": f"question {number}"}], Sampling())
    assert reply == f"QUESTION {number}", reply
"""


def test_two_processes_share_a_ledger_and_no_question_is_paid_twice(tmp_path):
    """Both ask the same twenty questions at the same time, of a server that takes a moment for each."""

    def slowly(text: str) -> str:
        time.sleep(0.05)
        return text.upper()

    file = tmp_path / "ledger.jsonl"
    with serving.ChatServer(serving.rule(slowly)) as server:
        command = [sys.executable, "-c", ASKS, str(file), server.base_url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        both = [subprocess.Popen([*command, first], **pipes) for first in ("0", "3")]
        for process in both:
            assert process.stdout.readline() == "ready\n"
        for process in both:
            process.stdin.write("go\n")
            process.stdin.close()
        assert [process.wait(200) for process in both] == [0, 0]
        asked = [request.body["messages"][0]["content"] for request in server.requests]
    assert sorted(asked) == sorted(f"question {number}" for number in range(20))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len({line["key"] for line in lines}) == len(lines) == 20
