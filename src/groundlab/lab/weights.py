"""The weights that the configs of a scale name, fetched from the Hugging Face hub and checked file by file.

    for each in named_at("paper"): print(each)       # repository, pinned revision
    fetch(each, listing(each), say=print)            # into the hub's own cache, $HF_HOME/hub

Compute nodes have no network, and runs load from that cache alone. A revision is a commit of the repository, so it
names every byte; the hub tells the size and digest of each file at that commit, and each is hashed once it is here.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from groundlab.core.errors import GroundlabError, first_line
from groundlab.lab import config

NAMES = ("model", "encoder")  # settings that may name a repository of the hub
_SMALL = ("*.json", "*.txt", "*.model", "*.jinja")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")  # the first kind that is there


class Weights(NamedTuple):
    """A model of the hub; without a revision it is the hub's newest on the day that it is fetched."""

    repo: str
    revision: str | None = None


class File(NamedTuple):
    """A file of a model at its revision; `digest` is its SHA-256, or git's own SHA-1 for files outside LFS."""

    name: str
    bytes: int
    digest: str


class Listing(NamedTuple):
    """What the hub has of a model: the commit, and the files that runs load."""

    commit: str
    files: list[File]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def named_at(scale: str, papers: tuple[str, ...] = ()) -> list[Weights]:
    """The models of the hub that the configs of some papers (all by default) name at a scale.

    Raises GroundlabError for unknown names, as plans do.
    """
    settings = (entry.settings for paper in papers or config.known_papers() for entry in config.load(paper, scale).runs)
    found = {
        Weights(str(each[name]), each.get("revision" if name == "model" else "encoder_revision"))
        for each in settings
        for name in NAMES
        if is_of_the_hub(each.get(name))
    }
    return sorted(found, key=lambda each: (each.repo, each.revision or ""))


def is_of_the_hub(name: Any) -> bool:
    """Whether a setting names a repository of the hub, and no folder here."""
    return isinstance(name, str) and bool(re.fullmatch(r"[\w.-]+/[\w.-]+", name)) and not Path(name).exists()


def listing(weights: Weights) -> Listing:
    """Commit and files with their sizes and digests, as the hub tells them. Raises GroundlabError in one line."""
    with _errors_in_one_line(weights):
        info = HfApi().model_info(weights.repo, revision=weights.revision, files_metadata=True)
    files = [
        File(each.rfilename, each.size or 0, each.lfs.sha256 if each.lfs else each.blob_id or "")
        for each in info.siblings or []
        if "/" not in each.rfilename
    ]
    kinds = ([file for file in files if fnmatch(file.name, kind)] for kind in _WEIGHTS)
    heavy = next((kind for kind in kinds if kind), [])
    if not heavy:
        raise GroundlabError(f"{weights.repo} has no weights for PyTorch ({' or '.join(_WEIGHTS)}); name another")
    small = [file for file in files if any(fnmatch(file.name, kind) for kind in _SMALL)]
    return Listing(info.sha or "", [*small, *heavy])


def fetch(weights: Weights, found: Listing, say: Callable[[str], None] = lambda line: None) -> Path:
    """Download what is missing of a model, hash every file, and return its folder in the hub's cache.

    say: is given a line a file, as sha256sum writes it. Raises GroundlabError where the disk is too small, the hub
    refuses, or a file is not what the hub says; that file is deleted, and the same command fetches it again.
    """
    _check_space(weights, found, Path(constants.HF_HUB_CACHE))
    with _errors_in_one_line(weights):
        # an unpinned name must stand for its newest version here, too: the cache notes that for names, not for commits
        revision = found.commit if weights.revision else "main"
        names = [file.name for file in found.files]
        folder = Path(snapshot_download(weights.repo, revision=revision, allow_patterns=names))
    for file in found.files:
        _check(folder / file.name, file, say)
    return folder


def _check_space(weights: Weights, found: Listing, cache: Path) -> None:
    there = next(folder for folder in (cache, *cache.absolute().parents) if folder.is_dir())
    here = cache / f"models--{weights.repo.replace('/', '--')}" / "blobs"
    missing = sum(file.bytes for file in found.files if not (here / file.digest).is_file())
    free = shutil.disk_usage(there).free
    if missing > free:
        raise GroundlabError(
            f"{weights.repo} needs {missing / 1e9:,.1f} GB and {cache} has {free / 1e9:,.1f} GB free; "
            "set HF_HOME to a folder with more"
        )


def _check(path: Path, file: File, say: Callable[[str], None]) -> None:
    with path.open("rb") as opened:
        sha256 = found = hashlib.file_digest(opened, "sha256").hexdigest()
    if len(file.digest) != len(sha256):  # git's, of a small file
        found = hashlib.sha1(b"blob %d\0%b" % (file.bytes, path.read_bytes())).hexdigest()
    if file.digest != found:
        path.resolve().unlink()
        path.unlink(missing_ok=True)
        raise GroundlabError(f"{path} arrived damaged and was deleted; the same command fetches it again")
    say(f"{sha256}  {path}")


@contextmanager
def _errors_in_one_line(weights: Weights) -> Iterator[None]:
    """Inside, what the hub's client raises becomes one line with its fix."""
    try:
        yield
    except OfflineModeIsEnabled:
        raise GroundlabError("HF_HUB_OFFLINE is set; unset it to fetch") from None
    except (GatedRepoError, LocalTokenNotFoundError):
        page = f"{constants.ENDPOINT}/{weights.repo}"
        raise GroundlabError(f"{weights.repo} is gated: accept its licence on {page}, then hf auth login") from None
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise GroundlabError(
            f"the hub has no {weights.repo} at that revision for this account; correct it, or hf auth login"
        ) from None
    except HfHubHTTPError as error:
        raise GroundlabError(
            f"the hub refused {weights.repo} ({first_line(error)}); correct what it names, or try again later"
        ) from None
    except Exception as error:  # what the client's HTTP library raises without a network has changed between versions
        raise GroundlabError(
            f"{constants.ENDPOINT} is out of reach ({first_line(error)}); try with a network"
        ) from None
