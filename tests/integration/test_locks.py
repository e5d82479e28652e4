"""pylock.toml (PEP 751) says what the pins say, and says it with hashes.

The base install resolves beside each trainer that an adapter is for, on every Python; no wheel is fetched for it.
"""

import re
import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
LOCK = tomllib.loads((ROOT / "pylock.toml").read_text())
PACKAGES = {package["name"]: package for package in LOCK["packages"]}
NO_RUN = {
    *("sphinx", "furo", "myst-parser", "accessible-pygments", "alabaster", "docutils", "imagesize", "mdit-py-plugins"),
    *("roman-numerals", "snowballstemmer", "sphinx-basic-ng", "sphinxcontrib-applehelp", "sphinxcontrib-devhelp"),
    *("sphinxcontrib-htmlhelp", "sphinxcontrib-jsmath", "sphinxcontrib-qthelp", "sphinxcontrib-serializinghtml"),
    "deflate",
}
"""What only the site and publishing need: pylock.toml alone pins it."""


def pins(file: str) -> dict[str, str]:
    """Package -> version of a file of requirements, names as PEP 503 writes them."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==(\S+)", (ROOT / "requirements" / file).read_text(), re.MULTILINE)
    return {re.sub("[-_.]+", "-", name).lower(): version for name, version in found}


def test_the_lock_has_every_pin_and_no_other_version():
    wanted = pins("constraints.txt")
    differing = {
        name: (version, PACKAGES.get(name, {}).get("version"))
        for name, version in wanted.items()
        if name in PACKAGES and PACKAGES[name]["version"] != version
    }
    assert not differing
    assert sorted(set(wanted) - set(PACKAGES)) == ["wheel"], "which builds, and is not needed by what is built"


def test_what_comes_with_torch_for_a_gpu_is_locked_as_in_the_images():
    images, extra = pins("container.lock"), set(PACKAGES) - set(pins("constraints.txt")) - NO_RUN
    assert {name: PACKAGES[name]["version"] for name in extra} == {name: images[name] for name in extra}
    assert any(name.startswith("nvidia-") for name in extra)


def test_every_file_of_the_lock_has_a_digest_and_fits_the_reference_machine():
    assert LOCK["lock-version"] == "1.0"
    for name, package in PACKAGES.items():
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert files, name
        for file in files:
            assert re.fullmatch("[0-9a-f]{64}", file["hashes"]["sha256"]), name
            assert file["url"].startswith("https://files.pythonhosted.org/"), name
        wheels = [file["url"] for file in package.get("wheels", [])]
        assert not wheels or any(url.endswith(("any.whl", "x86_64.whl")) for url in wheels), name


class Told:
    """A session that only keeps what it is told to run; `pip config list` answers `config`."""

    def __init__(self, environment: Path, config: str):
        self.commands: list[list[str]] = []
        self.locked: list[str] = []
        self._file, self._config = environment / "locked.txt", config

    def log(self, text: str) -> None:
        """Said to nobody."""

    def run(self, *command: str, **_: object) -> str:
        self.commands.append([Path(command[0]).name, *command[1:]])
        if "--require-hashes" in command:
            self.locked += self._file.read_text().splitlines()
        return self._config


HERE = ((3, 11), "linux", "x86_64")
NEAR, CPU = ":env:.find-links='/opt/wheels'\n", "https://download.pytorch.org/whl/cpu"


@pytest.mark.parametrize(
    ("machine", "config", "index", "by_digest", "torch_too"),
    [
        (HERE, "global.cert='/etc/ssl/x.crt'\n", "", True, True),
        (HERE, NEAR, "", True, False),
        (HERE, "", CPU, True, False),
        (((3, 12), "linux", "x86_64"), "", "", False, False),
        (((3, 11), "darwin", "arm64"), "", CPU, False, False),
    ],
)
def test_a_session_installs_by_digest_where_the_lock_fits(
    sessions, monkeypatch, tmp_path, machine, config, index, by_digest, torch_too
):
    version, system, processor = machine
    monkeypatch.setenv("GROUNDLAB_TORCH_INDEX", index)
    monkeypatch.setattr(sessions, "ENVIRONMENT", tmp_path)
    monkeypatch.setattr(sessions, "platform", SimpleNamespace(machine=lambda: processor))
    monkeypatch.setattr(sessions, "sys", SimpleNamespace(version_info=version, platform=system, executable="python3"))
    session = Told(tmp_path, config)
    sessions.install(session)
    names = {line.partition("==")[0] for line in session.locked}
    assert bool(names) == by_digest
    assert ("torch" in names) == torch_too
    installs = [" ".join(command) for command in session.commands if "install" in command]
    assert sum(command.endswith(" torch" + f" --extra-index-url {index}" * bool(index)) for command in installs) == 1
    assert "-c requirements/constraints.txt --no-build-isolation -e .[dev]" in installs[-1]
    count = len(session.commands)
    sessions.install(session)
    assert len(session.commands) == count, "once is enough"


def test_sessions_install_all_of_the_lock_by_digest_and_torch_only_where_it_is_that_of_the_lock(sessions):
    builds, others = sessions.locked(with_torch=True)
    lines = {line.partition("==")[0]: line for line in [*builds, *others]}
    assert list(lines) == ["setuptools", *(name for name in PACKAGES if name != "setuptools")]
    for name, line in lines.items():
        files = PACKAGES[name].get("wheels") or [PACKAGES[name]["sdist"]]
        digests = re.findall(r" --hash=sha256:(\w+)", line)
        assert line.startswith(f"{name}=={PACKAGES[name]['version']} ")
        assert digests == [file["hashes"]["sha256"] for file in files]
    without = [line for part in sessions.locked(with_torch=False) for line in part]
    left_out = {line.partition("==")[0] for line in {*lines.values()} - {*without}}
    assert left_out == {"torch"} | set(PACKAGES) - set(pins("constraints.txt")) - NO_RUN - {"setuptools"}


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
