"""What the images are made from: recipes that agree, and scripts that do what they say."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = {name: (ROOT / name).read_text() for name in ("Dockerfile", "apptainer.def")}
OPENENV = (ROOT / "src" / "groundlab" / "assets" / "openenv" / "Dockerfile").read_text()


def test_both_recipes_start_from_the_same_base_by_digest():
    bases = [re.findall(r"BASE=(\S+:\S+@sha256:[0-9a-f]{64})$", recipe, re.MULTILINE) for recipe in RECIPES.values()]
    assert bases[0] == bases[1] and len(bases[0]) == 1
    name, digest = bases[0][0].split("@")
    assert f"FROM {name}@{digest}\n" in OPENENV and f"ARG BASE_DIGEST={digest}\n" in RECIPES["Dockerfile"]


def test_the_image_of_openenv_has_no_results_and_is_served_to_this_machine_alone():
    assert "COPY . ." not in OPENENV and "results" not in OPENENV
    assert re.findall(r"-p (\S+)", OPENENV) == ["127.0.0.1:8000:8000"] and "'setuptools>=80'" in OPENENV


def test_what_git_ignores_is_not_copied_into_an_image():
    git, docker = ((ROOT / name).read_text().splitlines() for name in (".gitignore", ".dockerignore"))
    left_out = {line.removeprefix("**/") for line in docker}
    assert {line.strip("/") for line in git if line and not line.startswith("#")} <= left_out


@pytest.mark.parametrize("name", RECIPES)
def test_both_recipes_install_the_lock_alone_and_say_what_they_hold(name):
    recipe = RECIPES[name]
    labels = ("revision", "version", "source", "base.name", "base.digest")
    for needed in ("requirements/install.py", "requirements/image-compile.sh", "groundlab.lock", "SOURCE_DATE_EPOCH="):
        assert needed in recipe
    for label in labels:
        assert f"org.opencontainers.image.{label}" in recipe
    assert not re.search(r"apt-get|pip install (?!--no-deps)", recipe), "nothing outside the lock is installed"


def test_the_container_does_not_run_as_root_and_its_user_may_save_pages_and_their_records():
    recipe, version = RECIPES["Dockerfile"], tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(r"^USER groundlab$", recipe, flags=re.MULTILINE) and f"image.version={version} " in recipe
    owned = re.search(r"chown -R groundlab (.*)", recipe)
    assert owned and {"notebooks", "results/.runs", "results/.scratch"} <= {*owned[1].split()}


ABSENT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("grimp", "sphinx", "furo", "myst_parser"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def test_tests_are_collected_where_git_and_packages_of_lint_and_site_are_absent(tmp_path):
    (tmp_path / "absent.py").write_text(ABSENT)
    folders = ["tests/contract", "tests/integration", "tests/unit/site"]
    command = [sys.executable, "-m", "pytest", "-p", "absent", "-p", "no:cacheprovider", "--collect-only", *folders]
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout[-2000:] + answer.stderr


def test_a_build_is_dated_by_its_commit_and_another_base_is_not_labelled_with_the_pinned_digest():
    found = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert found and found.loader
    noxfile, calls = importlib.util.module_from_spec(found), list[tuple]()
    found.loader.exec_module(noxfile)
    session = SimpleNamespace(run=lambda *words, **_: calls.append(words))
    words = noxfile._container_words(["--base", "localhost/other"])
    noxfile._build_with_buildah(session, "source", {"COMMIT": "0" * 40, "SOURCE_DATE_EPOCH": "1700000000"}, words)
    assert {"--timestamp=1700000000", "--build-arg=BASE_DIGEST=unknown"} <= {*calls[0]}


def test_sessions_in_an_image_install_nothing():
    command = [sys.executable, "-m", "nox", "-s", "tests", "--", "--version"]
    environment = {**os.environ, "GROUNDLAB_COMMIT": "0" * 40}
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert f"{Path(sys.executable).parent}/pytest -n 3" in answer.stderr
    assert "install" not in answer.stderr


def committed(folder: Path) -> str:
    """Make a repository of a folder, commit what it holds, and return the commit."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("clone", [True, False], ids=["a clone", "a folder without git"])
def test_apptainer_takes_what_a_clone_has_committed_and_all_of_another_folder(tmp_path, clone):
    """Does what `apptainer build` does on the host before it enters the image."""
    source, rootfs = tmp_path / "source", tmp_path / "image"
    source.mkdir()
    (source / "pyproject.toml").write_text("committed\n")
    commit = committed(source) if clone else "given"
    (source / "pyproject.toml").write_text("changed since\n")
    (source / "left").write_text("not committed\n")
    section = re.search(r"^%setup\n(.*?)^%", RECIPES["apptainer.def"], flags=re.MULTILINE | re.DOTALL)
    assert section
    script = section[1].replace("{{ SOURCE }}", str(source)).replace("{{ COMMIT }}", "given")
    environment = {"PATH": os.environ["PATH"], "APPTAINER_ROOTFS": str(rootfs)}
    subprocess.run(["sh", "-ec", script], env=environment, check=True, capture_output=True)
    home = rootfs / "opt" / "groundlab"
    content = {file.name: file.read_text() for file in home.rglob("*") if file.is_file()}
    whole = {"pyproject.toml": "changed since\n", "left": "not committed\n"}
    assert content == (({"pyproject.toml": "committed\n"} if clone else whole) | {".commit": f"{commit}\n"})


def test_an_image_compiles_what_the_smoke_of_every_paper_uses_and_is_not_made_where_a_run_fails(tmp_path):
    program = tmp_path / "groundlab"
    keep = 'mkdir -p "${XDG_CACHE_HOME:-$HOME/.cache}/datasets"'
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{keep}\n[ "$1" != "$FAILS" ]\n')
    program.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(scratch), "HOME": f"{tmp_path}/home"}
    script = ROOT / "requirements" / "image-compile.sh"
    subprocess.run([script], env={**environment, "FAILS": ""}, check=True)
    last = (tmp_path / "asked").read_text().splitlines()[-1]
    assert last.startswith("reproduce --scale smoke --no-pages --results") and "--only" not in last
    assert subprocess.run([script], env={**environment, "FAILS": "reproduce"}).returncode != 0
    assert not [*scratch.iterdir(), *tmp_path.glob("home")], "nothing of it stays in the image"


@pytest.fixture
def image(tmp_path):
    """(/opt/groundlab of an image, a shell in it that returns where compiled code lies and what it is)."""
    root, kernel = tmp_path / "image", Path("worlds", "kernel.nbc")
    for folder, content in ((root / ".numba", "compiled at build time"), (tmp_path / "own", "mine")):
        (folder / kernel).parent.mkdir(parents=True)
        (folder / kernel).write_text(content)
    (root / "requirements").mkdir()
    for script in ("requirements/image-cache.sh", "requirements/image-entry.sh"):
        (root / script).write_text((ROOT / script).read_text().replace("/opt/groundlab", str(root)))
    shown = f'echo "$NUMBA_CACHE_DIR"; cat "$NUMBA_CACHE_DIR"/{kernel}'

    def start(words: str = f". {root}/requirements/image-cache.sh; {shown}", **environment: str) -> tuple[str, str]:
        given = {"PATH": f"{root}:/usr/bin:/bin", "GROUNDLAB_COMMIT": "abc", "HOME": f"{tmp_path}/home", **environment}
        answer = subprocess.run(["sh", "-euc", words], env=given, capture_output=True, text=True, check=True)
        folder, _, content = answer.stdout.partition("\n")
        return folder, content

    return root, start


PROGRAMS = ("nox -s smoke -- --results /results", "jupyter lab", "papermill a b", "pytest -q", "python3 -m x")


@pytest.mark.parametrize("words", ["", "reproduce --results /results", *PROGRAMS])
def test_words_go_to_groundlab_or_name_a_program_and_both_have_the_kernels_of_the_build(image, words):
    root, start = image
    started = words if words in PROGRAMS else f"groundlab {words}".strip()
    for name in ("groundlab", *(line.split()[0] for line in PROGRAMS)):
        (root / name).write_text(f'#!/bin/sh\necho {name} "$@"; cat "$NUMBA_CACHE_DIR"/worlds/kernel.nbc')
        (root / name).chmod(0o755)
    assert start(f"sh {root}/requirements/image-entry.sh {words}") == (started, "compiled at build time")


PLANTS = {
    "a link": lambda folder: folder.rename(folder.with_name("elsewhere")) and folder.symlink_to("elsewhere"),
    "open to all": lambda folder: folder.chmod(0o777),
    "of another user": lambda folder: os.chown(folder, 12345, 12345),
}


@pytest.mark.parametrize("plant", [name for name in PLANTS if name != "of another user" or os.getuid() == 0])
def test_without_a_home_an_image_runs_no_compiled_code_that_others_could_have_put_there(image, tmp_path, plant):
    _, start = image
    without = {"HOME": "/dev/null", "TMPDIR": str(tmp_path)}
    folder = Path(start(**without)[0])
    assert folder.parent == tmp_path and start(**without)[0] == str(folder) != start(**without, GROUNDLAB_COMMIT="d")[0]
    (folder / "worlds" / "kernel.nbc").write_text("planted")
    PLANTS[plant](folder)
    used, content = start(**without)
    assert content == "compiled at build time" and Path(used).stat().st_mode & 0o777 == 0o700


def test_images_of_unknown_commits_do_not_share_a_folder(image):
    root, start = image
    first = start(GROUNDLAB_COMMIT="unknown")
    assert start(GROUNDLAB_COMMIT="") == first
    (root / ".numba" / "worlds" / "kernel.nbc").write_text("of another image")
    assert start(GROUNDLAB_COMMIT="unknown")[1] == "of another image"


def test_an_image_gives_each_user_a_folder_of_their_own_with_what_was_compiled_at_build_time(image, tmp_path):
    kernel, (_, start) = Path("worlds", "kernel.nbc"), image
    folder, content = start()
    assert (folder, content) == (f"{tmp_path}/home/.cache/groundlab/image-abc", "compiled at build time")
    (Path(folder) / kernel).write_text("compiled here")
    assert start() == (folder, "compiled here"), "what this machine compiled is kept"
    assert start(GROUNDLAB_COMMIT="def")[1] == "compiled at build time"
    assert start(NUMBA_CACHE_DIR=f"{tmp_path}/own") == (f"{tmp_path}/own", "mine"), "the user's own choice"


def test_an_image_without_git_still_says_which_commit_it_is(tmp_path):
    """Of the repository in the image, and of no other package that is run in it."""
    image, other = tmp_path / "image", tmp_path / "other"
    for home in (image, other):
        for name in ("core", "__init__.py"):
            source, target = ROOT / "src" / "groundlab" / name, home / "src" / "groundlab" / name
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        (home / "pyproject.toml").write_text('name = "groundlab"')
    program = "import json; from groundlab.core import git; print(json.dumps(git.facts()))"
    unknown = {"commit": None, "dirty": None}
    named = {"commit": "abc123", "dirty": False}
    for package, commit, facts in ((image, "abc123", named), (image, "unknown", unknown), (other, "abc123", unknown)):
        given = {"GROUNDLAB_ROOT": str(image), "GROUNDLAB_COMMIT": commit, "PYTHONPATH": f"{package}/src"}
        command = [sys.executable, "-P", "-c", program]
        answer = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True, check=True)
        assert json.loads(answer.stdout) == facts
