"""What the images are made from: a lock that is whole, recipes that agree, and scripts that do what they say."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements" / "container.lock").read_text()
RECIPES = {name: (ROOT / name).read_text() for name in ("Dockerfile", "apptainer.def")}
CUDA = ("nvidia-", "cuda-", "triton")


def _versions(text: str) -> dict[str, str]:
    pairs = re.findall(r"^([A-Za-z0-9_.-]+)==([^ \n]+)", text, flags=re.MULTILINE)
    return {name.lower().replace("_", "-").replace(".", "-"): version for name, version in pairs}


def test_every_package_of_the_images_has_hashes_and_the_version_that_the_tests_use():
    locked, pinned = _versions(LOCK), _versions((ROOT / "requirements" / "constraints.txt").read_text())
    entries = re.split(r"^(?=[A-Za-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) == len(locked) > 100
    assert all("--hash=sha256:" in entry for entry in entries)
    assert {name: version for name, version in locked.items() if pinned.get(name, version) != version} == {}
    unpinned = [name for name in locked if name not in pinned and not name.startswith(CUDA)]
    assert unpinned == ["deflate", "setuptools"], "which pip freeze leaves out, and which is to name no run"


def test_the_lock_holds_all_that_groundlab_and_its_extras_for_clusters_and_tests_ask_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["lab"], *extras["slurm"], *extras["test"]]
    asked = {re.split(r"[\[<>=]", each)[0] for each in wanted} - {"groundlab"}
    assert {"torch", "submitit", "numba", "nox", "pytest"} < asked
    assert {*asked, "setuptools"} <= _versions(LOCK).keys()


def test_sessions_in_an_image_install_nothing():
    answer = subprocess.run(
        [sys.executable, "-m", "nox", "-s", "tests", "--", "--version"],
        cwd=ROOT,
        env={**os.environ, "GROUNDLAB_COMMIT": "0" * 40},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert f"{Path(sys.executable).parent}/pytest -n 3" in answer.stderr
    assert "install" not in answer.stderr


def test_the_lock_holds_torch_for_cuda_from_the_public_index_only():
    versions = _versions(LOCK)
    assert "+" not in versions["torch"]
    assert [name for name in versions if name.startswith("nvidia-cublas")]
    assert "file://" not in LOCK and "find-links" not in LOCK


def test_both_recipes_start_from_the_same_base_by_tag_and_digest(sessions):
    bases = {sessions._pinned_base(recipe) for recipe in RECIPES.values()}
    assert len(bases) == 1
    name, tag, digest = bases.pop()
    assert (name, tag) == ("python", "3.11-slim-bookworm") and re.fullmatch("sha256:[0-9a-f]{64}", digest)


def test_a_new_digest_replaces_the_old_one_and_nothing_else(sessions):
    new = "sha256:" + "0" * 64
    for recipe in RECIPES.values():
        old = sessions._pinned_base(recipe)[2]
        assert sessions.with_digest(recipe, new).replace(new, old) == recipe
        assert sessions._pinned_base(sessions.with_digest(recipe, new))[2] == new


@pytest.mark.parametrize("name", RECIPES)
def test_both_recipes_install_the_lock_offline_at_run_time_and_say_what_they_hold(name):
    recipe = RECIPES[name]
    scripts = ("requirements/image-install.sh", "NUMBA_CACHE_DIR=/opt/groundlab/.numba requirements/image-compile.sh")
    for needed in (*scripts, "HF_HUB_OFFLINE=1", "image.revision", "groundlab.lock"):
        assert needed in recipe
    assert not re.search(r"apt-get|pip install (?!--no-deps)", recipe), "nothing outside the lock is installed"


def test_a_trial_without_a_network_keeps_the_loopback_that_notebooks_need(sessions):
    alone = sessions.LOOPBACK_ONLY
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("making a network namespace takes root, unshare and ip")
    program = (
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    print(socket.create_connection(server.getsockname(), 5).getpeername()[0])\n"
        "print(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect_ex(('192.0.2.1', 9)) != 0)\n"
    )
    answer = subprocess.run([*alone, sys.executable, "-c", program], capture_output=True, text=True, timeout=500)
    assert answer.stdout.split() == ["127.0.0.1", "True"], answer.stderr


def test_the_container_does_not_run_as_root():
    assert re.search(r"^USER groundlab$", RECIPES["Dockerfile"], flags=re.MULTILINE)


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Calls the installation script where `python3 -m pip` only writes down what it is asked to install, and how."""
    program = tmp_path / "python3"
    program.write_text(
        '#!/bin/sh\nfor word in "$@"; do last=$word; done\n'
        f'{{ echo "# $@"; if [ -f "$last" ]; then cat "$last"; fi; }} >> {tmp_path}/asked\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TORCH_INDEX", "https://index.example")

    def install(kind: str) -> str:
        script = ROOT / "requirements" / "image-install.sh"
        subprocess.run([script, kind], check=True, capture_output=True)
        return (tmp_path / "asked").read_text()

    return install


def test_the_cuda_image_gets_the_whole_lock(pip):
    assert LOCK in pip("cuda")


def test_the_cpu_image_gets_the_same_packages_without_nvidias_and_the_locked_torch_from_its_index(pip):
    asked = pip("cpu")
    hashed = asked.partition("# -m pip install --no-deps")[0]
    left_out = _versions(LOCK).keys() - _versions(hashed).keys()
    assert "torch" in left_out and all(name == "torch" or name.startswith(CUDA) for name in left_out)
    assert f"--index-url https://index.example torch=={_versions(LOCK)['torch']}\n" in asked
    assert all("--hash=" in entry for entry in re.split(r"^(?=[a-z])", hashed, flags=re.MULTILINE)[1:])


def test_an_image_for_an_older_driver_gets_torch_with_its_libraries_from_another_index(pip):
    asked = pip("index")
    assert f"--index-url https://index.example torch=={_versions(LOCK)['torch']}\n" in asked
    assert "--no-deps --index-url" not in asked
    assert "torch" not in _versions(asked.partition("--index-url")[0])


def _setup_of_apptainer(source: Path, rootfs: Path) -> Path:
    """Does what `apptainer build` does on the host before it enters the image; returns the image's repository."""
    section = re.search(r"^%setup\n(.*?)^%", RECIPES["apptainer.def"], flags=re.MULTILINE | re.DOTALL)
    assert section
    script = section[1].replace("{{ SOURCE }}", str(source)).replace("{{ COMMIT }}", "given")
    environment = {"PATH": os.environ["PATH"], "APPTAINER_ROOTFS": str(rootfs)}
    subprocess.run(["sh", "-ec", script], env=environment, check=True, capture_output=True)
    return rootfs / "opt" / "groundlab"


def _committed(folder: Path) -> str:
    """Make a repository of a folder, commit what it holds, and return the commit."""
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def test_apptainer_takes_of_a_clone_what_is_committed_and_labels_its_commit(tmp_path):
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "pyproject.toml").write_text("committed\n")
    commit = _committed(clone)
    (clone / ".venv").mkdir()
    (clone / ".venv" / "torch.so").write_text("gigabytes")
    (clone / "pyproject.toml").write_text("changed since\n")
    home = _setup_of_apptainer(clone, tmp_path / "image")
    content = {file.name: file.read_text() for file in home.rglob("*") if file.is_file()}
    assert content == {"pyproject.toml": "committed\n", ".commit": f"{commit}\n"}


class _Session:
    """A session of nox that runs git and writes down what it would have done with buildah."""

    posargs = ("--torch", "cpu", "--tool", "buildah")

    def __init__(self):
        self.calls: list[tuple[str, ...]] = []
        self.source: set[str] = set()

    def run(self, *words: str, silent: bool = False, external: bool = False) -> str:
        self.calls.append(words)
        if words[:2] == ("buildah", "bud"):
            self.source = {str(file.relative_to(words[-1])) for file in Path(words[-1]).rglob("*") if file.is_file()}
        if words[0] not in ("git", "sh"):
            return ""
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def log(self, line: str) -> None:
        pass


def test_the_session_builds_the_committed_tree_labels_its_commit_and_tries_it_without_a_network(
    sessions, tmp_path, monkeypatch
):
    lock = tmp_path / "requirements" / "container.lock"
    lock.parent.mkdir()
    lock.write_text("locked\n")
    commit = _committed(tmp_path)
    (tmp_path / "left").write_text("not committed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sessions.shutil, "which", lambda tool: tool)
    session = _Session()
    sessions.container(session)
    build = next(call for call in session.calls if call[:2] == ("buildah", "bud"))
    given = {f"COMMIT={commit}", f"LOCK={hashlib.sha256(lock.read_bytes()).hexdigest()}", "TORCH=cpu"}
    assert {f"--build-arg={each}" for each in given} <= set(build)
    assert build[build.index("--tag") + 1] == f"localhost/groundlab:{commit[:7]}-cpu"
    assert session.source == {"requirements/container.lock"}
    assert ["--network=none" in call for call in session.calls if "reproduce" in call] == [True]
    labels = RECIPES["Dockerfile"].partition("LABEL ")[2].partition("VOLUME")[0]
    assert {"org.opencontainers.image.revision=${COMMIT}", "groundlab.lock=${LOCK}"} <= set(labels.split())


def test_apptainer_takes_a_folder_without_git_whole_as_the_commit_that_it_is_given(tmp_path):
    (tmp_path / "tree" / "src").mkdir(parents=True)
    (tmp_path / "tree" / "pyproject.toml").write_text("exported\n")
    home = _setup_of_apptainer(tmp_path / "tree", tmp_path / "image")
    assert (home / ".commit").read_text() == "given\n" and (home / "src").is_dir()


def test_what_has_no_wheel_is_built_by_the_locked_setuptools_and_by_no_other(pip):
    _, first, rest = pip("cuda").split("# -m pip install --require-hashes", maxsplit=2)
    assert list(_versions(first)) == ["setuptools"] and "--hash=sha256:" in first
    assert rest.splitlines()[0].startswith(" --no-deps --no-build-isolation -r")


def test_an_image_compiles_what_the_smoke_of_every_paper_uses_and_is_not_made_where_a_run_fails(tmp_path):
    program = tmp_path / "groundlab"
    program.write_text(f'#!/bin/sh\necho "$HF_HUB_OFFLINE $@" >> {tmp_path}/asked\n[ "$1" != "$FAILS" ]\n')
    program.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(scratch)}
    script = ROOT / "requirements" / "image-compile.sh"
    subprocess.run([script], env={**environment, "FAILS": ""}, check=True)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line for line in asked if line.startswith("1 reproduce --scale smoke --no-pages --results")] == asked[2:]
    assert len(asked) == 3 and "--only" not in asked[2], "of all papers"
    assert not list(scratch.iterdir()), "nothing of it stays in the image"
    assert subprocess.run([script], env={**environment, "FAILS": "reproduce"}).returncode != 0


@pytest.fixture
def start(tmp_path):
    """Starts an image whose root is a folder: the compiled code that a first process then finds, and its folder."""
    root = tmp_path / "image"
    (root / ".numba" / "worlds").mkdir(parents=True)
    (root / ".numba" / "worlds" / "kernel.nbc").write_text("compiled at build time")
    script = tmp_path / "image-cache.sh"
    script.write_text((ROOT / "requirements" / "image-cache.sh").read_text().replace("/opt/groundlab", str(root)))

    def run(**environment: str) -> tuple[str, str]:
        shown = f'. {script}; echo "$NUMBA_CACHE_DIR"; cat "$NUMBA_CACHE_DIR"/worlds/kernel.nbc'
        given = {"PATH": "/usr/bin:/bin", "GROUNDLAB_COMMIT": "abc", **environment}
        answer = subprocess.run(["sh", "-euc", shown], env=given, capture_output=True, text=True, check=True)
        folder, _, content = answer.stdout.partition("\n")
        return folder, content

    return run


def test_an_image_gives_each_user_a_folder_of_their_own_with_what_was_compiled_at_build_time(start, tmp_path):
    folder, content = start(HOME=str(tmp_path / "home"))
    assert (folder, content) == (f"{tmp_path}/home/.cache/groundlab/image-abc", "compiled at build time")
    (Path(folder) / "worlds" / "kernel.nbc").write_text("compiled here")
    assert start(HOME=str(tmp_path / "home")) == (folder, "compiled here"), "what this machine compiled is kept"
    assert start(HOME=str(tmp_path / "home"), GROUNDLAB_COMMIT="def")[1] == "compiled at build time"


def test_an_image_leaves_a_folder_for_compiled_code_alone_that_the_user_has_chosen(start, tmp_path):
    (tmp_path / "own" / "worlds").mkdir(parents=True)
    (tmp_path / "own" / "worlds" / "kernel.nbc").write_text("mine")
    assert start(NUMBA_CACHE_DIR=f"{tmp_path}/own", HOME=str(tmp_path)) == (f"{tmp_path}/own", "mine")


def test_an_image_without_git_still_says_which_commit_it_is(tmp_path):
    (tmp_path / "pyproject.toml").write_text('name = "groundlab"')
    program = "import json; from groundlab.core import git; print(json.dumps(git.facts()))"
    environment = {**os.environ, "GROUNDLAB_ROOT": str(tmp_path), "GROUNDLAB_COMMIT": "abc123"}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(answer.stdout) == {"commit": "abc123", "dirty": False}


def test_the_development_container_is_built_on_the_image_of_the_dockerfile():
    lines = (ROOT / ".devcontainer" / "devcontainer.json").read_text().splitlines()
    settings = json.loads("\n".join(line for line in lines if not line.startswith("//")))
    assert f"ARG BASE={settings['image']}\n" in (ROOT / "Dockerfile").read_text()
    assert settings["postCreateCommand"].endswith("nox -s smoke")
