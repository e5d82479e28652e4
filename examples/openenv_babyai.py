"""A rule plays a world through OpenEnv's server and client, and its success is printed.

    python examples/openenv_babyai.py                                 # starts a server of its own
    python examples/openenv_babyai.py --url http://127.0.0.1:8000     # plays on one that runs

Put your own agent in place of `reflex`. Needs `pip install ".[openenv]"`.
"""
# pyright: reportMissingImports=false

import argparse
import socket
import threading
import time
from typing import Any

import uvicorn

from groundlab.papers.worlds.reflex import reflex
from groundlab.worlds import adapters

openenv, client = adapters.load("openenv"), adapters.load("openenv-client")


def serve(world: str) -> str:
    """Start a server in this process; returns its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(openenv.make_app(world), port=port, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.1)
    return f"http://127.0.0.1:{port}"


def play(env: Any, world: str, seed: int) -> Any:
    """One episode to its end; returns the last result."""
    result, past = env.reset(seed=seed, world=world), []
    while not result.done:
        seen = result.observation.text.splitlines()
        past.append(reflex(result.observation.mission, seen, past))
        result = env.step(openenv.GridAction(action=past[-1]))
    return result


def main(words: argparse.Namespace) -> None:
    """Play, and print; a world in these levels pays at the end alone, so the last reward is the return."""
    with client.connect(words.url or serve(words.world)) as env:
        ends = [play(env, words.world, seed) for seed in range(words.episodes)]
    won, paid = (
        sum(values) / len(ends) for values in zip(*((e.observation.success, e.reward) for e in ends), strict=True)
    )
    print(f"{words.world}: success {won:.0%}, mean return {paid:.3f}, of {words.episodes} episodes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="BabyAI-GoToLocal-v0", help="any world in words: groundlab worlds")
    parser.add_argument("--url", help="of a server: python -m groundlab.worlds.adapters.openenv")
    parser.add_argument("--episodes", type=int, default=50, help="the levels of the seeds from 0 on")
    main(parser.parse_args())
