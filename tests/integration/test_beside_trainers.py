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
PYTHONS = ("3.11", "3.12", "3.13")
REGISTRY = "https://pypi.org/simple/gymnasium/"


@pytest.fixture(scope="module")
def uv(tmp_path_factory) -> str:
    """The resolver; from the registry where this machine has none."""
    try:
        urllib.request.urlopen(REGISTRY, timeout=30).close()
    except (urllib.error.URLError, TimeoutError) as error:
        pytest.skip(f"no registry can be reached ({error})")
    if found := shutil.which("uv"):
        return found
    folder = tmp_path_factory.mktemp("uv")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "uv"], check=True)
    return str(folder / "bin" / "uv")


def resolve(uv: str, requirements: list[str], python: str) -> subprocess.CompletedProcess[str]:
    """What uv makes of these requirements on x86-64 Linux."""
    options = ("--quiet", "--no-config", "--no-header", "--no-annotate", "--python-platform", "x86_64-manylinux_2_28")
    command = [uv, "pip", "compile", *options, "--python-version", python, "-"]
    return subprocess.run(command, input="\n".join(requirements), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "trainer", ["vllm>=0.32", "verl>=0.9.1", "verifiers>=0.4", "trl>=1.16", "openenv>=0.10", "gem-llm>=0.1"]
)
def test_the_worlds_resolve_beside_a_trainer(trainer, uv):
    with ThreadPoolExecutor(len(PYTHONS)) as pool:
        answers = list(pool.map(lambda python: resolve(uv, [*BASE, trainer], python), PYTHONS))
    refused = {python: each.stderr for python, each in zip(PYTHONS, answers, strict=True) if each.returncode}
    assert not refused
    name = trainer.partition(">")[0]
    assert all(f"{name}==" in each.stdout and "numba==" in each.stdout for each in answers)


def test_a_base_as_the_laboratory_pins_it_would_not_resolve_beside_vllm(uv):
    """The reason why the laboratory is an extra; and this test sees a refusal where there is one."""
    answer = resolve(uv, [*BASE, "numba>=0.68", "vllm>=0.32"], PYTHONS[0])
    assert answer.returncode and "numba" in answer.stderr
