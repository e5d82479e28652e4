"""What versions keep of a run beside its records, and published records in place of training."""

import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import made_up
import numpy as np
import pytest
import torch
from safetensors.numpy import load

from groundlab import lab
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec, load_checkpoint
from groundlab.lab import kept, page_records
from groundlab.lab.config import Estimate
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.learning import checkpoints
from groundlab.papers import registry

SMALL = {"iterations": 1, "trajectories": 1, "epochs": 1, "layouts": "0-1"}
SPEC = registry.resolve("mediator", "SimpleDoorKey", 0, SMALL)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run folder with the final weights of a small agent, and a folder of its own beside them."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    registry.execute(Run(folder, SPEC))
    storage.write_atomic(folder / "knowledge" / "code-final.py", "def compute_reward(): ...")
    storage.write_atomic(folder / "knowledge" / "large", bytes(kept.KEPT_BYTES + 1))
    return folder


def planned(keep: tuple[str, ...], spec: RunSpec = SPEC) -> PlannedRun:
    return PlannedRun(spec, "mediator", "0" * 16, Estimate(seconds=1, megabytes=1), "finished", keep=keep)


def kept_in(home: Path, trained: Path) -> Path:
    (trained / "manifest.json").write_text("{}")
    kept.keep(planned(("weights", "knowledge")), trained, home / "mediator" / "runs" / "kept")
    return home


def test_an_agent_of_a_version_plays_as_the_run_did_and_holds_nothing_to_train_with(trained, tmp_path):
    home = kept_in(tmp_path, trained)
    agent = lab.load_agent("mediator", home)
    assert agent.spec == SPEC
    assert agent.learner.evaluate() == storage.read_json(trained / "evaluation.json")
    assert set(load_checkpoint(agent.folder).files) == {"network.safetensors", "facts.json"}
    assert [file.name for file in (agent.folder / "knowledge").iterdir()] == ["code-final.py"]


def test_large_weights_are_halved_without_their_value_head_and_still_load(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FULL_PRECISION_BYTES", 0)
    network = torch.nn.ModuleDict({"body": torch.nn.Linear(3, 2), "value_head": torch.nn.Linear(3, 1)})
    before = {name: values.clone() for name, values in network.state_dict().items()}
    files = checkpoints.pack(network, torch.optim.Adam(network.parameters()), {})
    small = kept._small(files["network.safetensors"])
    kinds = {name: values.dtype for name, values in load(small).items()}
    assert kinds == {"body.weight": np.float16, "body.bias": np.float16}
    torch.nn.init.zeros_(network["body"].weight)
    checkpoints.unpack({"network.safetensors": small, "facts.json": b"{}"}, network)
    for name, values in network.state_dict().items():
        assert torch.allclose(values, before[name], atol=1e-3) and values.dtype == torch.float32


def test_a_run_is_not_continued_from_weights_without_a_value_head():
    network = torch.nn.ModuleDict({"body": torch.nn.Linear(3, 2), "value_head": torch.nn.Linear(3, 1)})
    optimizer = torch.optim.Adam(network.parameters())
    files = checkpoints.pack(network["body"], optimizer, {})
    with pytest.raises(GroundlabError, match="another network"):
        checkpoints.unpack(files, network, optimizer)


def test_records_without_weights_are_played_by_the_published_agent(trained, tmp_path, monkeypatch):
    quick = kept_in(tmp_path / "quick", trained)
    monkeypatch.setattr(page_records, "published", lambda paper, scale: quick)
    assert lab.load_agent("mediator", tmp_path / "full").folder.is_relative_to(quick)


def test_where_nothing_is_kept_the_loader_names_the_fix(tmp_path, monkeypatch):
    monkeypatch.setattr(page_records, "published", lambda paper, scale: tmp_path)
    with pytest.raises(GroundlabError, match="keeps no weights of glam; train them: groundlab reproduce --only glam"):
        lab.load_agent("glam", tmp_path)


@pytest.fixture
def published(tmp_path, laboratory) -> Plan:
    """A results folder whose reference names a version with one run; the plan's own store is empty."""
    home, spec = tmp_path / "results", laboratory.spec
    made_up.store_run(home / "1.0.0-quick-x", "mediator", spec.method, spec.world, spec.seed, {"rule": []})
    storage.write_json(home / "reference.json", {"mediator": {"quick": "1.0.0-quick-x"}})
    return Plan("quick", (SimpleNamespace(paper="mediator"),), (planned((), spec),), home)  # type: ignore[arg-type]


def test_a_notebook_shows_the_published_version_and_trains_nothing(published):
    home, given = published.results, {"results": published.results}
    assert lab.version("mediator", "quick", **given) == home / "1.0.0-quick-x"
    assert lab.version("mediator", "quick", folder=home / "1.0.0-quick-x") == home / "1.0.0-quick-x"
    assert not (home / ".runs").exists()


def test_where_results_cannot_be_written_fresh_ones_lie_in_a_temporary_folder_of_their_scale(published, monkeypatch):
    (published.results / ".scratch").write_text("not a folder")
    monkeypatch.setattr(tempfile, "tempdir", str(published.results.parent))
    folder = page_records._scratch_folder(published)
    assert folder.parents[1] == published.results.parent and folder.name.endswith("-quick")


def test_where_no_run_could_be_written_it_is_one_line_before_any_starts(published):
    (published.results / ".runs").write_text("not a folder")
    with pytest.raises(GroundlabError, match=r"cannot write .*\.runs: Not a directory; .*in a notebook folder="):
        lab.run(replace(published, runs=(replace(published.runs[0], status="new"),)))


@pytest.mark.parametrize("dry", [True, False])
def test_reproduce_looks_once_and_first_whether_it_can_write(tmp_path, dry):
    (tmp_path / ".scratch").write_text("not a folder")
    with pytest.raises(GroundlabError, match=r"cannot write .*\.scratch: Not a directory"):
        lab.reproduce(["worlds"], "smoke", results=tmp_path, dry_run=dry)
    assert [each.name for each in tmp_path.iterdir()] == [".scratch"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"source": "publishd"}, "'publishd'; did you mean 'published'"),
        ({"scale": "smoke"}, "nothing of mediator is published at scale smoke"),
        ({"seeds": 2}, 'expected seeds = None of published results, got 2; set source = "fresh" to train'),
        ({"scale": "full", "folder": "1.0.0-quick-x"}, 'quick, got full; set scale = "quick"'),
        ({"source": "fresh", "scale": "smoke", "folder": "1.0.0-quick-x"}, "new, empty or a notebook's"),
        ({"source": "fresh", "scale": "smoke", "folder": ""}, "expected a folder that is new, empty or a notebook"),
    ],
)
def test_a_parameter_that_is_wrong_or_without_effect_is_one_line(given, line, published):
    given = {"scale": "quick", "results": published.results, **given}
    if "folder" in given:
        given["folder"] = published.results / given["folder"]
    with pytest.raises(GroundlabError, match=line):
        lab.version("mediator", **given)
