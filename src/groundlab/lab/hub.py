"""Models on the Hugging Face hub: those that a scale's configs name come from there, a trained agent goes there.

    for each in named_at("paper"): print(each, fetch(each))          # into the hub's own cache, $HF_HOME/hub
    print(card(folder))                              # folder: of `groundlab run glam --out FOLDER`
    push(folder, "me/my-agent", private=True)        # asks nothing; `groundlab model push` asks first

Compute nodes have no network, and runs load from the cache alone. What is pushed is the run's `model` (adapters in
peft's own format or whole weights, tokenizer, heads), which a run of `glam` gets here (`model export`), with the card
as its README.md: method, world, seed, settings, success with its interval, commit.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import CommitOperationAdd, HfApi, ModelCardData, snapshot_download
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import filter_repo_objects

from groundlab.assets import ADAPTER
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, clip
from groundlab.core.manifests import Manifest, is_clean, values_of
from groundlab.core.yaml_files import dump_yaml
from groundlab.lab import config, run_folder
from groundlab.papers.glam.policy import VARIANTS
from groundlab.papers.glam.released_weights import export_agent
from groundlab.papers.reasoning.ppo import MODEL
from groundlab.report.statistics import success_of

CARD = "README.md"
NAMES = ("model", "encoder")  # settings that may name a repository of the hub
_SMALL = ("*.json", "*.txt", "*.model", "*.jinja")
_WEIGHTS = (("*.safetensors",), ("pytorch_model*.bin",))  # the first kind that is there
_WRITES = "A language model tuned by nested PPO on its own words in a grid world (after Gandhi et al. 2025)"
_SCORES = "A language model that scores actions, tuned by PPO in a grid world (after GLAM, Carta et al. 2023)"


class Weights(NamedTuple):
    """A model of the hub; without a revision it is the hub's newest on the day that it is fetched."""

    repo: str
    revision: str | None = None


def named_at(scale: str, papers: tuple[str, ...] = ()) -> list[Weights]:
    """The models of the hub that the configs of some papers (all by default) name at a scale.

    Raises GroundlabError for unknown names, as plans do.
    """
    settings = (entry.settings for paper in papers or config.known_papers() for entry in config.load(paper, scale).runs)
    found = {
        Weights(str(each[name]), each.get("revision" if name == "model" else "encoder_revision"))
        for each in settings
        for name in NAMES
        if _is_of_the_hub(each.get(name))
    }
    return sorted(found, key=lambda each: (each.repo, each.revision or ""))


def _is_of_the_hub(name: Any) -> bool:
    """Return True if a setting names a repository of the hub, and not a folder here."""
    return isinstance(name, str) and bool(re.fullmatch(r"[\w.-]+/[\w.-]+", name)) and not Path(name).exists()


def listing(weights: Weights) -> tuple[str, list[RepoSibling]]:
    """(commit, files that runs load) of a model, with their sizes and digests. Raises GroundlabError as `fetch`."""
    with _one_line(weights.repo):
        info = HfApi().model_info(weights.repo, revision=weights.revision, files_metadata=True)
    files = [file for file in info.siblings or [] if "/" not in file.rfilename]
    small, *kinds = (
        list(filter_repo_objects(files, allow_patterns=[*patterns], key=lambda file: file.rfilename))
        for patterns in (_SMALL, *_WEIGHTS)
    )
    if not any(kinds):
        raise GroundlabError(f"{weights.repo} has no weights for PyTorch at that revision; name another model")
    return info.sha or "", small + next(filter(None, kinds))


def fetch(weights: Weights) -> Path:
    """Download what is missing of a model; returns its folder in the hub's cache.

    Raises GroundlabError, in one line, for what the hub or the network refuses.
    """
    names = [file.rfilename for file in listing(weights)[1]]
    with _one_line(weights.repo):
        return Path(snapshot_download(weights.repo, revision=weights.revision, allow_patterns=names))


@contextmanager
def _one_line(repo: str) -> Iterator[None]:
    """Inside, what the hub's client says becomes one line; what it raises without a network varies by version."""
    try:
        yield
    except Exception as error:
        reason = clip(" ".join(str(error).split()), 400)
        raise GroundlabError(f"{repo}: {reason}; correct what it names, `hf auth login`, or try again later") from None


def export(folder: Path, out: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """(its folder, its `released.json`) of the model of a finished run of `glam`; by default in the run's own.

    Raises GroundlabError for a folder without a finished run, and as `export_agent`.
    """
    _finished(folder)
    home = out or folder / MODEL
    return home, export_agent(folder, home)


def _finished(folder: Path) -> Manifest:
    """The manifest of a finished run."""
    manifest = run_folder.read_manifest(folder)
    if manifest is None or run_folder.status_of(folder) != "finished":
        raise GroundlabError(f"{folder} holds no finished run; give the folder that `groundlab run --out` was given")
    return manifest


def model_files(folder: Path) -> list[Path]:
    """The files of a run's trained model that go to the hub, without the card.

    Raises GroundlabError for a folder without a finished run that left a model.
    """
    if _finished(folder)["method"] in VARIANTS:
        export(folder)
    found = [file for file in sorted((folder / MODEL).rglob("*")) if file.is_file() and file.name != CARD]
    if not found:
        raise GroundlabError(f"{folder} holds no model for the hub; give a run of `reasoning`, `direct` or `glam`")
    return found


def card(folder: Path) -> str:
    """The model's card, in Markdown with the hub's header, from the manifest and the evaluation of its run."""
    manifest = _finished(folder)
    given, hardware = str(manifest["settings"]["model"]), manifest["hardware"]
    commit = values_of(manifest, "git", "commit", "unknown") + " with changes" * (not is_clean(manifest))
    base = Path(given).name if Path(given).exists() else given
    header = ModelCardData(
        library_name="peft" if (folder / MODEL / ADAPTER).is_file() else "transformers",
        base_model=base if _is_of_the_hub(base) else None,
        tags=["reinforcement-learning", "groundlab"],
    )
    machine = ", ".join(filter(None, (hardware["cpu"], hardware["gpu"])))
    rows = [_measured(result) for result in storage.read_json(folder / "evaluation.json") if result["rows"]]
    return f"""---
{header}
---

# {manifest["method"]} on {manifest["world"]}, seed {manifest["seed"]}

{_SCORES if manifest["method"] in VARIANTS else _WRITES}, by
groundlab {manifest["packages"]["groundlab"]}, commit {commit}.
Run {manifest["hash"]}, base model {base}, on {machine}, Python {manifest["python"]}.

| evaluation | episodes | success | 95 % interval, over episodes |
|---|---|---|---|
{"".join(rows)}
One seed: the intervals say nothing of how another training run would have ended.

```yaml
{dump_yaml(manifest["settings"])}```
"""


def _measured(result: dict[str, Any]) -> str:
    found = success_of(result["rows"])
    value, low, high = (f"{number:.0f} %" for number in (found.value, found.low, found.high))
    return f"| {result['policy']} | {len(result['rows'])} | {value} | {low} to {high} |\n"


def push(folder: Path, repo: str, private: bool = False) -> str:
    """Upload files and card in one commit, to a repository that is made where there is none; returns its address.

    The hub and the account are those of the environment (HF_ENDPOINT, HF_TOKEN, `hf auth login`). Raises
    GroundlabError, in one line, for what the hub or the network refuses.
    """
    api, home, manifest = HfApi(), folder / MODEL, _finished(folder)
    operations = [CommitOperationAdd(file.relative_to(home).as_posix(), str(file)) for file in model_files(folder)]
    operations.append(CommitOperationAdd(CARD, card(folder).encode()))
    with _one_line(repo):
        api.create_repo(repo, private=private, exist_ok=True)
        api.create_commit(repo, operations, commit_message=f"groundlab run {manifest['hash']}")
    return f"{api.endpoint}/{repo}"
