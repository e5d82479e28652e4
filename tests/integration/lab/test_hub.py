"""Models come from a hub at their pinned commits, and trained agents become folders that transformers reads.

The hub is a stand-in for the functions of huggingface_hub that transfer something.
"""

from types import SimpleNamespace

import httpx
import pytest
from huggingface_hub.hf_api import RepoSibling
from tiny_models import write_t5
from typer.testing import CliRunner

from groundlab import lab
from groundlab.cli import app
from groundlab.core.errors import GroundlabError
from groundlab.lab import hub
from groundlab.papers import registry

COMMIT = "a" * 40


class FakeHub:
    """A hub with one repository; `error` is what it answers to every call."""

    def __init__(self):
        self.files, self.fetched, self.error = {}, [], None

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
def tuned(tmp_path_factory):
    """The folder of a run of GLAM, which leaves no model until somebody asks."""
    folder, model = tmp_path_factory.mktemp("runs") / "glam", write_t5(tmp_path_factory.mktemp("t5"))
    settings = {"model": str(model), "num_envs": 2, "frames_per_env": 4, "batch_size": 4, "epochs": 1, "frames": 8}
    lab.execute_run(registry.resolve("glam", "BabyAI-GoToObjS4-v0", 0, {**settings, "layouts": "0-1"}), folder)
    return folder


def test_an_agent_of_glam_is_exported_as_a_model_of_transformers(tuned):
    result = groundlab("model", "export", tuned)
    assert result.exit_code == 0 and "glam --world BabyAI-GoToObjS4-v0" in " ".join(result.output.split())
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "heads.safetensors", "released.json"}
    assert wanted <= {file.name for file in (tuned / "model").iterdir()}


def test_a_folder_without_a_finished_run_is_refused(tmp_path):
    with pytest.raises(GroundlabError, match="no finished run"):
        hub.export(tmp_path)


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


def test_what_the_hub_refuses_is_one_line(server):
    server.error = OSError("Repository not found.\nIf it is private, log in.")
    with pytest.raises(GroundlabError, match=r"me/agent: Repository not found. If .*`hf auth login`") as error:
        hub.fetch(hub.Weights("me/agent"))
    assert "\n" not in str(error.value)
    server.error = httpx.InvalidURL("Invalid port: 'passw0rd'")  # of HTTPS_PROXY=http://me:passw0rd/@host
    with pytest.raises(GroundlabError, match="the address in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY") as error:
        hub.fetch(hub.Weights("me/agent"))
    assert "passw0rd" not in str(error.value)


def test_every_model_that_the_papers_train_is_pinned_to_a_commit():
    named = hub.named_at("paper")
    assert {"google/flan-t5-large", "google/flan-t5-small", "google/flan-t5-xl"} < {each.repo for each in named}
    assert all(each.revision and len(each.revision) == 40 for each in named)
    assert hub.named_at("smoke") == [], "what ships is enough"
