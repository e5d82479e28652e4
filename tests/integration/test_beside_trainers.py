"""The base install resolves beside each trainer that an adapter is for, on every Python; no wheel is fetched for it."""

import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
BASE = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["dependencies"]
TRAINERS = ("vllm>=0.32", "verl>=0.9.1", "verifiers>=0.4", "trl>=1.16", "openenv>=0.10", "gem-llm>=0.1")
REGISTRY = "https://pypi.org/simple/gymnasium/"


def uv(tmp_path: Path) -> str:
    """The resolver; from the registry where this machine has none."""
    try:
        urllib.request.urlopen(REGISTRY, timeout=30).close()
    except (urllib.error.URLError, TimeoutError) as error:
        pytest.skip(f"no registry can be reached ({error})")
    if found := shutil.which("uv"):
        return found
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", tmp_path, "uv"], check=True)
    return str(tmp_path / "bin" / "uv")


def test_the_worlds_resolve_beside_each_trainer(tmp_path):
    """One resolution a trainer, for all Pythons from 3.11 on (`--universal`); all at once, as each waits for a network.

    A base as the laboratory pins it does not resolve beside vllm, which is why the laboratory is an extra.
    """
    command = [uv(tmp_path), "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"]

    def resolve(*requirements: str) -> subprocess.CompletedProcess[str]:
        words = [*command, "--universal", "--python-version", "3.11", "-"]
        return subprocess.run(words, input="\n".join([*BASE, *requirements]), capture_output=True, text=True)

    with ThreadPoolExecutor() as pool:
        refused = pool.submit(resolve, "numba>=0.68", TRAINERS[0])
        answers = dict(zip(TRAINERS, pool.map(resolve, TRAINERS), strict=True))
    for trainer, answer in answers.items():
        assert answer.returncode == 0, answer.stderr
        assert f"\n{trainer.partition('>')[0]}==" in answer.stdout and "\nnumba==" in answer.stdout
    assert refused.result().returncode and "numba" in refused.result().stderr
