"""What the images are made from: recipes that agree, and scripts that do what they say."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = {name: (ROOT / name).read_text() for name in ("Dockerfile", "apptainer.def")}


def test_both_recipes_start_from_the_same_base_by_digest():
    bases = [re.findall(r"BASE=(\S+:\S+@sha256:[0-9a-f]{64})$", recipe, re.MULTILINE) for recipe in RECIPES.values()]
    assert bases[0] == bases[1] and len(bases[0]) == 1


@pytest.mark.parametrize("name", RECIPES)
def test_both_recipes_install_the_lock_alone_and_say_what_they_hold(name):
    recipe = RECIPES[name]
    for needed in ("requirements/install.py", "requirements/image-compile.sh", "image.revision", "groundlab.lock"):
        assert needed in recipe
    assert not re.search(r"apt-get|pip install (?!--no-deps)", recipe), "nothing outside the lock is installed"


def test_the_container_does_not_run_as_root():
    assert re.search(r"^USER groundlab$", RECIPES["Dockerfile"], flags=re.MULTILINE)


def test_sessions_in_an_image_install_nothing():
    command = [sys.executable, "-m", "nox", "-s", "tests", "--", "--version"]
    environment = {**os.environ, "GROUNDLAB_COMMIT": "0" * 40}
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert f"{Path(sys.executable).parent}/pytest -n 3" in answer.stderr
    assert "install" not in answer.stderr


def committed(folder: Path) -> str:
    """Make a repository of a folder, commit what it holds, and return the commit."""
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
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ "$1" != "$FAILS" ]\n')
    program.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(scratch)}
    script = ROOT / "requirements" / "image-compile.sh"
    subprocess.run([script], env={**environment, "FAILS": ""}, check=True)
    last = (tmp_path / "asked").read_text().splitlines()[-1]
    assert last.startswith("reproduce --scale smoke --no-pages --results") and "--only" not in last
    assert not list(scratch.iterdir()), "nothing of it stays in the image"
    assert subprocess.run([script], env={**environment, "FAILS": "reproduce"}).returncode != 0


def test_an_image_gives_each_user_a_folder_of_their_own_with_what_was_compiled_at_build_time(tmp_path):
    root, script, kernel = tmp_path / "image", tmp_path / "image-cache.sh", Path("worlds", "kernel.nbc")
    for folder, content in ((root / ".numba", "compiled at build time"), (tmp_path / "own", "mine")):
        (folder / kernel).parent.mkdir(parents=True)
        (folder / kernel).write_text(content)
    script.write_text((ROOT / "requirements" / "image-cache.sh").read_text().replace("/opt/groundlab", str(root)))

    def start(**environment: str) -> tuple[str, str]:
        shown = f'. {script}; echo "$NUMBA_CACHE_DIR"; cat "$NUMBA_CACHE_DIR"/{kernel}'
        given = {"PATH": "/usr/bin:/bin", "GROUNDLAB_COMMIT": "abc", "HOME": f"{tmp_path}/home", **environment}
        answer = subprocess.run(["sh", "-euc", shown], env=given, capture_output=True, text=True, check=True)
        folder, _, content = answer.stdout.partition("\n")
        return folder, content

    folder, content = start()
    assert (folder, content) == (f"{tmp_path}/home/.cache/groundlab/image-abc", "compiled at build time")
    (Path(folder) / kernel).write_text("compiled here")
    assert start() == (folder, "compiled here"), "what this machine compiled is kept"
    assert start(GROUNDLAB_COMMIT="def")[1] == "compiled at build time"
    assert start(NUMBA_CACHE_DIR=f"{tmp_path}/own") == (f"{tmp_path}/own", "mine"), "the user's own choice"


def test_an_image_without_git_still_says_which_commit_it_is(tmp_path):
    (tmp_path / "pyproject.toml").write_text('name = "groundlab"')
    program = "import json; from groundlab.core import git; print(json.dumps(git.facts()))"
    environment = {**os.environ, "GROUNDLAB_ROOT": str(tmp_path), "GROUNDLAB_COMMIT": "abc123"}
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == {"commit": "abc123", "dirty": False}
