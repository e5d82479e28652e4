"""Models of the Hugging Face hub that a scale's configs name, and trained agents as folders that transformers reads.

    for each in named_at("paper"): print(each, fetch(each))          # into the hub's own cache, $HF_HOME/hub
    export(folder)                                   # folder: of `groundlab run glam --out FOLDER`

Compute nodes have no network, and runs load from the cache alone.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import filter_repo_objects

from groundlab.core.errors import GroundlabError, clip
from groundlab.lab import config, run_folder
from groundlab.papers.glam.released_weights import export_agent
from groundlab.papers.reasoning.ppo import MODEL

NAMES = ("model", "encoder")  # settings that may name a repository of the hub
_SMALL = ("*.json", "*.txt", "*.model", "*.jinja")
_WEIGHTS = (("*.safetensors",), ("pytorch_model*.bin",))  # the first kind that is there


class Weights(NamedTuple):
    """A model of the hub; without a revision it is the hub's newest on the day that it is fetched."""

    repo: str
    revision: str | None = None


def named_at(scale: str, papers: tuple[str, ...] = ()) -> list[Weights]:
    """The models of the hub that the configs of some papers (all by default) name at a scale.

    Raises GroundlabError for unknown names, as plans do.
    """
    found = {
        Weights(str(each[name]), each.get("revision" if name == "model" else "encoder_revision"))
        for *_, each in runs_at(scale, papers)
        for name in NAMES
        if _is_of_the_hub(each.get(name))
    }
    return sorted(found, key=lambda each: (each.repo, each.revision or ""))


def runs_at(scale: str, papers: tuple[str, ...] = ()) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (method, world, settings) of what the configs of some papers run at a scale. Raises as `named_at`."""
    entries = (entry for paper in papers or config.known_papers() for entry in config.load(paper, scale).runs)
    return [(entry.method, world, entry.settings) for entry in entries for world in entry.worlds]


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
        if type(error).__name__ == "InvalidURL":  # which repeats a part of a proxy's address, perhaps its password
            reason = "the address in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be read"
        raise GroundlabError(f"{repo}: {reason}; correct what it names, `hf auth login`, or try again later") from None


def export(folder: Path, out: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """(its folder, its `released.json`) of the model of a finished run of `glam`; by default in the run's own.

    Raises GroundlabError for a folder without a finished run, and as `export_agent`.
    """
    if run_folder.status_of(folder) != "finished":
        raise GroundlabError(f"{folder} holds no finished run; give the folder that `groundlab run --out` was given")
    home = out or folder / MODEL
    return home, export_agent(folder, home)
