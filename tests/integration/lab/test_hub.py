"""Models go to a hub as their run left them, with a card whose figures are the run's, and come from there.

The hub is a stand-in for the functions of huggingface_hub that transfer something.
"""

from types import SimpleNamespace

import pytest
import yaml
from huggingface_hub.hf_api import RepoSibling
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
COMMIT = "a" * 40


class FakeHub:
    """A hub with one repository; `error` is what it answers to every call."""

    endpoint = "https://hub.invalid"

    def __init__(self):
        self.files, self.private, self.fetched, self.error = {}, None, [], None

    def create_repo(self, repo, private, exist_ok):
        if self.error:
            raise self.error
        self.private = private

    def create_commit(self, repo, operations, commit_message):
        for each in operations:
            with each.as_file() as content:
                self.files[each.path_in_repo] = content.read()

    def model_info(self, repo, revision, files_metadata):
        if self.error:
            raise self.error
        files = [RepoSibling(rfilename=name, size=len(each), blob_id="0" * 40) for name, each in self.files.items()]
        return SimpleNamespace(sha=COMMIT, siblings=files)

    def snapshot_download(self, repo, revision, allow_patterns):
        self.fetched.append((repo, revision, sorted(allow_patterns)))
        return "cache/folder"


@pytest.fixture
def server(monkeypatch):
    fake = FakeHub()
    monkeypatch.setattr(hub, "HfApi", lambda: fake)
    monkeypatch.setattr(hub, "snapshot_download", fake.snapshot_download)
    return fake


def groundlab(*words, **options):
    return CliRunner().invoke(app, [str(word) for word in words], **options)


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


@pytest.mark.parametrize("private", [True, False])
def test_an_upload_holds_the_files_of_the_model_and_the_card_byte_for_byte(trained, server, tmp_path, private):
    result = groundlab("model", "push", trained, "me/agent", "--yes", *(["--private"] if private else []))
    assert result.exit_code == 0, result.output
    wanted = {path.name: path.read_bytes() for path in hub.model_files(trained)}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "value_head.safetensors"} <= {*wanted}
    assert server.files == wanted | {"README.md": hub.card(trained).encode()} and server.private == private
    assert all(name in result.output for name in wanted)
    for name, content in server.files.items():
        (tmp_path / name).write_bytes(content)
    assert LoraConfig.from_pretrained(str(tmp_path)).r == 2


def test_an_agent_of_glam_is_uploaded_as_a_model_of_transformers(tuned, server):
    result = groundlab("model", "push", tuned, "me/glam", "--yes")
    assert result.exit_code == 0, result.output
    wanted = {path.name: path.read_bytes() for path in hub.model_files(tuned)}
    assert {"config.json", "model.safetensors", "tokenizer.json", "heads.safetensors", "released.json"} <= {*wanted}
    assert server.files == wanted | {"README.md": hub.card(tuned).encode()}
    assert "scores actions" in hub.card(tuned) and "glam on BabyAI-GoToObjS4-v0, seed 0" in hub.card(tuned)


def test_nothing_is_sent_before_a_person_agrees(trained, server):
    result = groundlab("model", "push", trained, "me/agent", input="n\n")
    assert "adapter_model.safetensors" in result.output and "public" in result.output
    assert server.private is None and server.files == {}


def test_folders_without_a_finished_run_or_without_a_model_are_refused(tmp_path, trained):
    with pytest.raises(GroundlabError, match="no finished run"):
        hub.model_files(tmp_path)
    for name in ("manifest.json", "config.yaml", "metrics.jsonl", "evaluation.json"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    with pytest.raises(GroundlabError, match="holds no model for the hub"):
        hub.model_files(tmp_path)


SMALL = ["config.json", "tokenizer.json"]


@pytest.mark.parametrize(
    ("weights", "loaded"),
    [
        (["model.safetensors", "pytorch_model.bin", "tf_model.h5", "onnx/config.json"], ["model.safetensors"]),
        (
            ["pytorch_model-1.bin", "pytorch_model-2.bin", "flax.msgpack"],
            ["pytorch_model-1.bin", "pytorch_model-2.bin"],
        ),
    ],
)
def test_the_files_that_runs_load_are_fetched_at_the_pinned_commit(server, monkeypatch, weights, loaded):
    server.files = dict.fromkeys([*SMALL, *weights], b"12345")
    monkeypatch.setattr(hub, "named_at", lambda scale, papers: [hub.Weights("google/tiny", COMMIT)])
    listed = groundlab("model", "fetch", "--dry-run").output
    assert f"google/tiny at {COMMIT} (pinned): {len(loaded) + 2} files" in " ".join(listed.split())
    assert all(name in listed for name in [*SMALL, *loaded]) and server.fetched == []
    assert "cache/folder" in groundlab("model", "fetch").output
    assert server.fetched == [("google/tiny", COMMIT, sorted([*SMALL, *loaded]))]


def test_what_the_hub_refuses_is_one_line(trained, server):
    server.error = OSError("Repository not found.\nIf it is private, log in.")
    for call in (lambda: hub.push(trained, "me/agent"), lambda: hub.fetch(hub.Weights("me/agent"))):
        with pytest.raises(GroundlabError, match=r"me/agent: Repository not found. If .*`hf auth login`") as error:
            call()
        assert "\n" not in str(error.value)


def test_every_model_that_the_papers_train_is_pinned_to_a_commit():
    named = hub.named_at("paper")
    assert {"google/flan-t5-large", "google/flan-t5-small", "google/flan-t5-xl"} < {each.repo for each in named}
    assert all(each.revision and len(each.revision) == 40 for each in named)
    assert hub.named_at("smoke") == [], "what ships is enough"
