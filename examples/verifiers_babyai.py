"""verifiers evaluates a rule, served as a chat model, on levels of a world, and its success is printed.

    python examples/verifiers_babyai.py                       # the rule `reflex`, behind a server of its own
    python examples/verifiers_babyai.py --url http://127.0.0.1:8001/v1 --model Qwen/Qwen3-0.6B       # any chat server

Needs Python 3.11 or newer, `pip install ".[verifiers]" uv`; verifiers runs its agent program by uv.
"""
# pyright: reportMissingImports=false

import argparse
import asyncio
import json
import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig
from verifiers.v1.configs.select import SelectCLIConfig

from groundlab.papers.worlds.reflex import reflex
from groundlab.worlds import adapters

adapter = adapters.load("verifiers")

PLUGIN = (
    "from groundlab.worlds.adapters.verifiers import GridPlay, GridTaskset\n__all__ = ['GridPlay', 'GridTaskset']\n"
)
"""verifiers finds a taskset as a module of its own name."""


class Rule(BaseHTTPRequestHandler):
    """OpenAI's chat completions; each reply is what the rule does."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [str(turn["content"]) for turn in request["messages"] if turn["role"] == "user"]
        past = re.findall(r"<action>(.*?)</action>", json.dumps(request["messages"][1:]))
        goal, *seen = texts[-1].splitlines()
        word = reflex(goal.partition(": ")[2], seen, past)
        reply = {"role": "assistant", "content": f"<action>{word}</action>"}
        chunk = {"id": "0", "object": "chat.completion.chunk", "created": 0, "model": request["model"]}
        said = {**chunk, "choices": [{"index": 0, "delta": reply, "finish_reason": None}]}
        ended = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for data in (json.dumps(said), json.dumps(ended), "[DONE]"):
            self.wfile.write(f"data: {data}\n\n".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def main(words: argparse.Namespace) -> None:
    """Serve the rule, evaluate, and print; verifiers leaves its traces in OUT."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Rule)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "groundlab_worlds.py").write_text(PLUGIN)
        sys.path.insert(0, folder)
        player = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
        config = EvalConfig(
            env=adapter.GridPlayConfig(
                taskset=adapter.GridConfig(id="groundlab_worlds", world=words.world), player=vf.AgentConfig(**player)
            ),
            model=words.model,
            client=vf.EvalClientConfig(base_url=words.url or f"http://127.0.0.1:{server.server_port}/v1"),
            select=SelectCLIConfig(limit=words.episodes),
            max_concurrent=words.at_once,
            output_dir=Path(words.out),
            push=False,
            rich=None,
        )
        traces = [trace for episode in asyncio.run(run_eval(config)) for trace in episode.traces]
    failed = [trace.errors for trace in traces if not trace.ok]
    if failed:
        raise SystemExit(f"{len(failed)} of {len(traces)} episodes failed, the first by {failed[0]}")
    won = sum(trace.metrics["success"] for trace in traces) / len(traces)
    paid = sum(trace.rewards["return"].score for trace in traces) / len(traces)
    print(f"{words.world}: success {won:.0%}, mean return {paid:.3f}, of {len(traces)} episodes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="BabyAI-GoToLocal-v0", help="any world in words: groundlab worlds")
    parser.add_argument("--url", help="of an OpenAI-compatible server")
    parser.add_argument("--model", default="reflex", help="its name there")
    parser.add_argument("--episodes", type=int, default=10, help="the levels of the seeds from 0 on")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--out", default="out/verifiers")
    main(parser.parse_args())
