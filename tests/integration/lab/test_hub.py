"""A trained agent goes to a hub: what its run left, no more, with a card whose figures are the run's.

The hub is a server on the loopback; the client is huggingface_hub itself.
"""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from huggingface_hub import HfApi, constants
from peft import LoraConfig
from tiny_models import write_t5
from typer.testing import CliRunner

from groundlab import lab
from groundlab.cli import app
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.lab import hub
from groundlab.papers import registry

SETTINGS = {"num_envs": 2, "steps": 4, "minibatch_size": 4, "iterations": 1, "layouts": "0-5", "num_dists": 0}
TOKEN = "hf_" + "x" * 34


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a real run."""
    folder = tmp_path_factory.mktemp("runs") / "direct"
    lab.execute_run(registry.resolve("direct", "Reasoning-GoTo-v0", 3, {**SETTINGS, "lora_rank": 2}), folder)
    return folder


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The folder of a run of GLAM, which leaves no model until somebody asks."""
    folder, model = tmp_path_factory.mktemp("runs") / "glam", write_t5(tmp_path_factory.mktemp("t5"))
    settings = {"model": str(model), "num_envs": 2, "frames_per_env": 4, "batch_size": 4, "epochs": 1, "frames": 8}
    lab.execute_run(registry.resolve("glam", "BabyAI-GoToObjS4-v0", 0, {**settings, "layouts": "0-1"}), folder)
    return folder


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as an upload asks for."""

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer({"error": "Invalid username or password."}, 401)
        if b'"busy"' in asked:
            return self.answer({"error": "Busy"}, 500)
        if self.path.endswith("/repos/create"):
            self.server.created.append(json.loads(asked))  # type: ignore[attr-defined]
            return self.answer({"url": f"{self.address}/me/agent"})
        if "/preupload/" in self.path:
            files = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(asked)["files"]]
            return self.answer({"files": [{**file, "shouldIgnore": False} for file in files]})
        if "/commit/" in self.path:
            lines = [json.loads(line)["value"] for line in asked.splitlines()]
            self.server.files.update(  # type: ignore[attr-defined]
                {line["path"]: base64.b64decode(line["content"]) for line in lines if "path" in line}
            )
            return self.answer({"commitUrl": f"{self.address}/me/agent/commit/1", "commitOid": "1"})
        return self.answer({})  # the check of the card's header

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, content, status=200):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    """The loopback hub, as the environment's own."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    httpd.created, httpd.files = [], {}  # type: ignore[attr-defined]
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{httpd.server_address[1]}")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # the test session is offline; the loopback is not the hub
    yield httpd
    httpd.shutdown()
    httpd.server_close()


def test_the_card_states_how_the_agent_was_made_and_what_was_measured(trained):
    text, manifest = hub.card(trained), storage.read_json(trained / "manifest.json")
    made = (manifest["git"]["commit"], manifest["hash"], "quick-llama-chat-s0")
    assert all(said in text for said in ("direct on Reasoning-GoTo-v0, seed 3", *made))
    rows = storage.read_json(trained / "evaluation.json")[0]["rows"]
    share = f"{100 * sum(row['success'] for row in rows) / len(rows):.0f} %"
    line = next(line for line in text.splitlines() if line.startswith("| sampled |"))
    assert [cell.strip() for cell in line.split("|")[2:4]] == ["6", share]
    low, high = (int(end.rstrip(" %")) for end in line.split("|")[4].split(" to "))
    assert low <= int(share.rstrip(" %")) <= high
    assert yaml.safe_load(text.split("---")[1])["library_name"] == "peft"
    assert yaml.safe_load(text.split("```yaml")[1].split("```")[0])["lora_rank"] == 2


def test_an_agent_of_glam_is_uploaded_as_a_model_of_transformers(tuned, server):
    result = CliRunner().invoke(app, ["model", "push", str(tuned), "me/glam", "--yes"])
    assert result.exit_code == 0, result.output
    wanted = {path.name: path.read_bytes() for path in hub.model_files(tuned)}
    assert {"config.json", "model.safetensors", "tokenizer.json", "heads.safetensors", "released.json"} <= {*wanted}
    assert server.files == wanted | {"README.md": hub.card(tuned).encode()}
    assert "scores actions" in hub.card(tuned) and "glam on BabyAI-GoToObjS4-v0, seed 0" in hub.card(tuned)


def test_an_upload_holds_the_files_of_the_model_and_the_card_byte_for_byte(trained, server):
    result = CliRunner().invoke(app, ["model", "push", str(trained), "me/agent", "--private", "--yes"])
    assert result.exit_code == 0, result.output
    wanted = {path.name: path.read_bytes() for path in hub.model_files(trained)}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "value_head.safetensors"} <= {*wanted}
    assert server.files == wanted | {"README.md": hub.card(trained).encode()}
    assert server.created[0]["name"] == "agent" and server.created[0]["visibility"] == "private"
    assert all(name in result.output for name in wanted)


def test_what_was_uploaded_opens_with_peft(trained, server, tmp_path):
    hub.push(trained, "me/agent")
    for name, content in server.files.items():
        (tmp_path / name).write_bytes(content)
    assert LoraConfig.from_pretrained(str(tmp_path)).r == 2


def test_nothing_is_sent_before_a_person_agrees(trained, server):
    result = CliRunner().invoke(app, ["model", "push", str(trained), "me/agent"], input="n\n")
    assert "adapter_model.safetensors" in result.output and "public" in result.output
    assert server.created == [] and server.files == {}


@pytest.mark.parametrize(
    ("repo", "api", "said"),
    [
        ("me/agent", {"token": "hf_" + "y" * 34}, "hf auth login"),
        ("me/agent", {"token": False}, "hf auth login"),
        ("not a name", {"token": TOKEN}, "ACCOUNT/NAME"),
        ("busy/agent", {"token": TOKEN}, "refused busy/agent .*; correct what it names, or try again later"),
        ("me/agent", {"token": TOKEN, "endpoint": "http://127.0.0.1:9"}, "out of reach"),
    ],
)
def test_what_the_hub_refuses_is_one_line_with_its_fix(repo, api, said, trained, server):
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    with pytest.raises(GroundlabError, match=said) as error:
        hub.push(trained, repo, api=HfApi(**{"endpoint": endpoint, **api}))
    assert "\n" not in str(error.value)


def test_an_offline_session_is_told_what_keeps_it_from_uploading(trained, server, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(GroundlabError, match="unset it"):
        hub.push(trained, "me/agent")
    assert server.files == {}


def test_folders_without_a_finished_run_or_without_a_model_are_refused(tmp_path, trained):
    with pytest.raises(GroundlabError, match="no finished run"):
        hub.model_files(tmp_path)
    for name in ("manifest.json", "config.yaml", "metrics.jsonl", "evaluation.json"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    with pytest.raises(GroundlabError, match="holds no model for the hub"):
        hub.model_files(tmp_path)
