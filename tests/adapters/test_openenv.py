"""OpenEnv itself: its server over the loopback, its client, many sessions, those that die. Run by `nox -s adapters`."""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openenv", reason="nox -s adapters has it")

from groundlab.assets import read_text
from groundlab.core.errors import GroundlabError
from groundlab.worlds import TextEnv, adapters

WORLD = "BabyAI-GoToLocalS5N2-v0"
CLIENTS, EPISODES = 4, 25  # 100 episodes
_DYING = """
import sys
from groundlab.worlds.adapters.openenv_client import connect
client = connect(sys.argv[1])
client.connect()
client.reset(seed=1)
print("in the middle of an episode", flush=True)
sys.stdin.read()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_server(port: int) -> subprocess.Popen:
    words = ("-m", "groundlab.worlds.adapters.openenv", "--world", WORLD, "--port", str(port))
    server = subprocess.Popen([sys.executable, *words])
    deadline = time.monotonic() + 500  # the first start compiles the engine
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return server
        except OSError:
            time.sleep(0.2)
    server.kill()
    raise RuntimeError(f"the server did not start (exit code {server.poll()})")


@pytest.fixture(scope="module")
def url():
    port = free_port()
    server = start_server(port)
    yield f"http://127.0.0.1:{port}"
    server.kill()
    server.wait()


@pytest.fixture(scope="module")
def openenv():
    return adapters.load("openenv")


@pytest.fixture(scope="module")
def client():
    return adapters.load("openenv-client")


def play(connect, action, url: str, seeds: range) -> int:
    """Episodes of a random agent, each step compared with the environment in this process; returns the steps."""
    steps, here = 0, TextEnv(WORLD, prompt="plain")
    with connect(url) as env:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            text, info = here.reset(seed=seed)
            result = env.reset(seed=seed, episode_id=f"episode-{seed}")
            assert (result.observation.text, result.observation.mission) == (text, info["mission"])
            while not result.done:
                word = here.actions[int(rng.integers(6))]
                text, reward, terminated, truncated, info = here.step(word)
                result = env.step(action(action=f"<action>{word}</action>"))
                assert (result.observation.text, result.reward, result.done) == (text, reward, terminated or truncated)
                assert result.observation.state == info["state"].hex()
                steps += 1
            state = env.state()
            assert (state.episode_id, state.step_count > 0) == (f"episode-{seed}", True)
    return steps


def test_four_clients_at_once_play_a_hundred_episodes_as_in_one_process(url, openenv, client):
    with ThreadPoolExecutor(CLIENTS) as pool:
        parts = [range(EPISODES * k, EPISODES * (k + 1)) for k in range(CLIENTS)]
        steps = [*pool.map(lambda seeds: play(client.connect, openenv.GridAction, url, seeds), parts)]
    assert len(steps) == CLIENTS and min(steps) > EPISODES


def test_a_client_that_dies_leaves_the_others_and_the_server_alone(url, openenv, client):
    with client.connect(url) as other:
        other.reset(seed=5)
        for _ in range(3):
            pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE, "text": True}
            dying = subprocess.Popen([sys.executable, "-c", _DYING, url], **pipes)
            assert dying.stdout and "middle" in dying.stdout.readline()
            dying.kill()
            dying.wait()
        expected = TextEnv(WORLD, prompt="plain")
        expected.reset(seed=5)
        assert other.step(openenv.GridAction(action="turn left")).observation.text == expected.step("turn left")[0]
    assert play(client.connect, openenv.GridAction, url, range(3)) > 0


def test_an_action_has_exactly_one_required_field(url):
    with urllib.request.urlopen(f"{url}/schema", timeout=30) as answer:
        schema = json.load(answer)
    assert schema["action"]["required"] == ["action"]


def test_mistakes_are_one_clear_line(url, openenv, client):
    with client.connect(url) as env:
        with pytest.raises(GroundlabError, match="unknown world 'BabyAI-GoToLocl-v0'; did you mean") as error:
            env.reset(seed=0, world="BabyAI-GoToLocl-v0")
        assert "\n" not in str(error.value)
        result = env.reset(seed=0, world="BabyAI-GoToObj-v0")
        assert result.observation.mission == TextEnv("BabyAI-GoToObj-v0").reset(seed=0)[1]["mission"]
        result = env.step(openenv.GridAction(action="fly"))
        assert not result.observation.action_is_valid and result.observation.text.startswith("Unknown action 'fly'")
        for seed in ("seven", -3):
            with pytest.raises(GroundlabError, match="seed") as error:
                env.reset(seed=seed)
            assert "\n" not in str(error.value) and len(str(error.value)) < 500
    wrong = [sys.executable, "-m", "groundlab.worlds.adapters.openenv", "--world", "BabyAI-GoToLocl-v0"]
    done = subprocess.run(wrong, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "did you mean" in done.stderr


def test_a_server_that_is_gone_is_one_clear_line(openenv, client):
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with pytest.raises(GroundlabError, match=f"no OpenEnv server answers at {address}"), client.connect(address):
        pass
    server = start_server(port)
    env = client.connect(address)
    env.connect()
    env.reset(seed=0)
    server.kill()
    server.wait()
    with pytest.raises(GroundlabError, match=f"no OpenEnv server answers at {address}") as error:
        env.step(openenv.GridAction(action="drop"))
    assert "\n" not in str(error.value)


def test_the_manifest_names_this_application(openenv):
    manifest = read_text("openenv/openenv.yaml")
    module, name = re.findall(r"^app: ([\w.]+):(\w+)$", manifest, re.MULTILINE)[0]
    assert module == openenv.__name__
    assert type(getattr(openenv, name)).__name__ == "FastAPI"
    assert f'"{module}:{name}"' in read_text("openenv/Dockerfile")


def test_the_pages_code_runs_against_the_server(url, capsys):
    """It turns no corner, so it ends with the level it can walk to, or at the time limit."""
    page = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()
    code = re.findall(r"^## OpenEnv\n.*?```python\n(.*?)```", page, re.MULTILINE | re.DOTALL)[0]
    exec(compile(code.replace("http://127.0.0.1:8000", url), "docs/adapters.md", "exec"), {})
    assert re.search(r"^[\d.]+ (True|False)$", capsys.readouterr().out, re.MULTILINE)
