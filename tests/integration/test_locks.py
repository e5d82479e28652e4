"""pylock.toml (PEP 751) is the lock: it satisfies pyproject.toml, and pins are exported and installed from it."""

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = tomllib.loads((ROOT / "pylock.toml").read_text())
PACKAGES = {package["name"]: package for package in LOCK["packages"]}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILDS = PYPROJECT["project"], PYPROJECT["build-system"]["requires"]
CPU = "https://download.pytorch.org/whl/cpu"


def canonical(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def asked_for(*requirements: str) -> list[Requirement]:
    """These requirements; groundlab's own extras are what they stand for."""
    found = []
    for each in map(Requirement, requirements):
        extras = each.extras if each.name == "groundlab" else ()
        own = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
        found += asked_for(*own) if own else [each]
    return found


def test_the_lock_satisfies_what_pyproject_asks_for():
    for wanted in asked_for(*PROJECT["dependencies"], "groundlab[dev]", *BUILDS):
        version = PACKAGES[canonical(wanted.name)]["version"]
        assert wanted.specifier.contains(version), f"{wanted} is locked at {version}; run `nox -s lock`"


def test_every_file_of_the_lock_has_a_digest_and_comes_from_the_public_index():
    for name, package in PACKAGES.items():
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert files, name
        assert not re.search(r"python_full_version \S+ '\d+\.\d+\.", package.get("marker", "")), (
            "one for any Python 3.11"
        )
        for file in files:
            assert re.fullmatch("[0-9a-f]{64}", file["hashes"]["sha256"]), name
            assert file["url"].startswith("https://files.pythonhosted.org/"), name


@pytest.fixture(scope="module")
def installer():
    """requirements/install.py as a module."""
    found = importlib.util.spec_from_file_location("install", ROOT / "requirements" / "install.py")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_constraints_are_those_that_the_lock_exports(installer):
    assert (ROOT / "requirements" / "constraints.txt").read_text() == installer.constraints(), "run `nox -s lock`"


PYTHON = """#!{python}
import json, os, sys
from pathlib import Path
words = sys.argv[3:]  # after python -m pip
if words[0] == "config":
    print(os.environ["CONFIG"])
else:
    lines = Path(words[-1]).read_text().splitlines() if "-r" in words else []
    with Path(__file__).with_name("asked").open("a") as file:
        file.write(json.dumps([words, lines]) + "\\n")
"""


@pytest.fixture
def asked(installer, tmp_path, monkeypatch):
    """Runs the installer with a pip that only keeps what it is asked: (locked package -> line, other calls)."""
    python = tmp_path / "python"
    python.write_text(PYTHON.format(python=sys.executable))
    python.chmod(0o755)

    def run(what: str, fits: bool = True, **environment: str) -> tuple[dict[str, str], list[str]]:
        monkeypatch.setattr(installer, "FITS", fits)
        monkeypatch.setattr(sys, "argv", ["install.py", what, "--quiet"])
        monkeypatch.setattr(sys, "executable", str(python))
        for name, value in {"CONFIG": "", "GROUNDLAB_TORCH_INDEX": "", **environment}.items():
            monkeypatch.setenv(name, value)
        installer.main()
        calls = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
        locked = [line for words, lines in calls if {"--require-hashes", "--no-deps"} <= {*words} for line in lines]
        return {line.partition("==")[0]: line for line in locked}, [
            " ".join(words) for words, lines in calls if not lines
        ]

    return run


NVIDIA = {name for name in PACKAGES if name.startswith(("nvidia-", "cuda-", "triton"))}


@pytest.mark.parametrize(
    ("fits", "environment", "by_digest"),
    [
        (True, {"CONFIG": "global.cert='/etc/ssl/x.crt'"}, {*PACKAGES}),
        (True, {"CONFIG": ":env:.find-links='/opt/wheels'"}, {*PACKAGES} - NVIDIA - {"torch"}),
        (True, {"GROUNDLAB_TORCH_INDEX": CPU}, {*PACKAGES} - NVIDIA - {"torch"}),
        (False, {}, set()),
        (False, {"GROUNDLAB_TORCH_INDEX": CPU}, set()),
    ],
)
def test_nox_installs_by_digest_where_the_lock_fits_and_torch_from_the_index_that_is_named(
    asked, installer, fits, environment, by_digest
):
    locked, others = asked("here", fits, **environment)
    assert locked.keys() == by_digest
    index = environment.get("GROUNDLAB_TORCH_INDEX")
    assert others[-1] == f"install --quiet -c {installer.CONSTRAINTS} torch" + f" --extra-index-url {CPU}" * bool(index)


@pytest.mark.parametrize(
    ("kind", "torch"),
    [("cuda", None), ("cpu", "--no-deps --index-url https://x torch=="), ("index", "--index-url https://x torch==")],
)
def test_an_image_gets_the_lock_by_digest_and_torch_without_nvidias_libraries_from_its_index(asked, kind, torch):
    locked, others = asked(kind, TORCH_INDEX="https://x")
    assert locked.keys() == {*PACKAGES} - (NVIDIA | {"torch"} if torch else set())
    assert others == [*([f"install --quiet {torch}{PACKAGES['torch']['version']}"] if torch else []), "check"]
    assert next(iter(locked)) == "setuptools", "it builds what has no wheel"
    for name, line in locked.items():
        files = PACKAGES[name].get("wheels") or [PACKAGES[name]["sdist"]]
        assert line.startswith(f"{name}=={PACKAGES[name]['version']} ")
        assert re.findall(r" --hash=sha256:(\w+)", line) == [file["hashes"]["sha256"] for file in files]
