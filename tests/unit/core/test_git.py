"""Commit and state of the running package; where git cannot answer they are unknown, never clean."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from groundlab.core import git, storage

UNKNOWN = {"commit": None, "dirty": None}


def call(clone: Path, *words: str) -> str:
    command = ["git", "-C", str(clone), "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def make(home: Path, code: str = "") -> Path:
    """A committed clone of a package of one line."""
    for name, text in {
        "pyproject.toml": 'name = "groundlab"',
        "src/groundlab/a.py": code,
        "configs/a.yaml": "",
    }.items():
        storage.write_atomic(home / name, text)
    call(home, "init", "-q")
    call(home, "add", ".")
    call(home, "commit", "-qm", "all")
    return home


def edit(home: Path, name: str = "src/groundlab/a.py") -> None:
    storage.write_atomic(home / name, "edited = True")


@pytest.fixture
def clone(tmp_path) -> Path:
    return make(tmp_path / "clone")


@pytest.fixture
def facts(clone, monkeypatch) -> Callable[..., dict]:
    """The facts of a process of the clone, or one that runs `package` in the clone `here`."""

    def of(here: Path | None = clone, package: Path = clone / "src" / "groundlab") -> dict:
        digest = storage.digest_files(package.rglob("*.py"), package)
        known = {"find_root": lambda: here, "package_folder": lambda: package, "sources": lambda: digest}
        for name, function in known.items():
            monkeypatch.setattr(git, name, function, raising=False)
        return git.facts.__wrapped__()

    return of


def test_a_clone_names_its_commit_and_whether_code_or_configs_differ(clone, facts):
    head = call(clone, "rev-parse", "HEAD")
    assert facts() == {"commit": head, "dirty": False} and git.last_change("configs") == head
    edit(clone, "docs/notes.md")
    assert facts()["dirty"] is False, "no result rests on it"
    edit(clone, "configs/a.yaml")
    assert facts() == {"commit": head, "dirty": True} and git.last_change("configs") is None


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"])
def test_variables_of_git_that_hooks_set_name_no_other_repository(variable, clone, facts, tmp_path, monkeypatch):
    other, head = make(tmp_path / "other", "other = True"), call(clone, "rev-parse", "HEAD")
    places = {"GIT_WORK_TREE": other, "GIT_INDEX_FILE": other / ".git/index", "GIT_DIR": other / ".git"}
    monkeypatch.setenv(variable, str(places.get(variable, other / ".git/objects")))
    assert facts() == {"commit": head, "dirty": False}
    edit(clone)
    assert facts() == {"commit": head, "dirty": True}


LOOKED_AWAY = {
    "untracked files are not shown": [("config", "status.showUntrackedFiles", "no")],
    "new files are ignored": [("config", "core.excludesFile", "ignored")],
    "code is kept out of archives": [("config", "core.attributesFile", "attributes")],
    "assumed unchanged": [("update-index", "--assume-unchanged", "src/groundlab/a.py", "configs/a.yaml")],
    "skipped": [("update-index", "--skip-worktree", "src/groundlab/a.py", "configs/a.yaml")],
    "another working tree": [("config", "core.worktree", "../../other")],
    "a monitor that sees nothing": [("config", "core.fsmonitor", "printf '1\\0'"), ("update-index", "--fsmonitor")],
}


@pytest.mark.parametrize("edited", ["src/groundlab/a.py", "src/groundlab/new.py", "configs/a.yaml", "configs/new.yaml"])
@pytest.mark.parametrize("what", LOOKED_AWAY)
def test_an_edit_is_not_clean_whatever_git_was_asked_not_to_see(what, edited, clone, facts, tmp_path):
    make(tmp_path / "other")
    (clone / "ignored").write_text("new.*")
    (clone / "attributes").write_text("src/** export-ignore")
    for words in LOOKED_AWAY[what]:
        call(clone, *words)
    edit(clone, edited)
    assert facts()["dirty"] is not False
    assert not edited.startswith("configs") or git.last_change(clone / "configs") is None


def _break_index(clone: Path, patch: pytest.MonkeyPatch) -> None:
    (clone / ".git" / "index").write_bytes(b"broken")


UNABLE: dict[str, Callable[[Path, pytest.MonkeyPatch], object]] = {
    "no git": lambda clone, patch: patch.setenv("PATH", str(clone)),
    "of another owner": lambda clone, patch: patch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1"),
    "no commit": lambda clone, patch: (clone / ".git" / "HEAD").write_text("ref: refs/heads/none"),
    "a broken index": _break_index,
    "no clone": lambda clone, patch: shutil.rmtree(clone / ".git"),
}


@pytest.mark.parametrize("why", UNABLE)
def test_where_git_cannot_say_nothing_is_clean(why, clone, facts, monkeypatch):
    monkeypatch.setenv("GROUNDLAB_COMMIT", "unknown" if why == "no clone" else "0" * 40)
    UNABLE[why](clone, monkeypatch)
    found = facts()
    assert found["dirty"] is None and (found == UNKNOWN) == (why != "a broken index")
    assert git.last_change("configs") is None


def test_the_tree_is_that_of_the_running_package(clone, facts, tmp_path, monkeypatch):
    """An edited clone on PYTHONPATH, a wheel in an environment, both started in another clone."""
    other = make(tmp_path / "other", "other = True")
    head, others = call(clone, "rev-parse", "HEAD"), call(other, "rev-parse", "HEAD")
    assert facts(here=clone, package=other / "src" / "groundlab") == {"commit": others, "dirty": False}
    edit(clone, "configs/a.yaml")
    assert facts(here=clone, package=other / "src" / "groundlab")["dirty"], "its configs are read"
    call(clone, "checkout", ".")
    twin = shutil.copytree(clone, tmp_path / "twin")
    edit(twin, "src/groundlab/prompt.txt")
    assert facts(here=clone, package=twin / "src" / "groundlab") == {"commit": head, "dirty": True}, (
        "no module, but read"
    )
    edit(other)
    assert facts(here=clone, package=other / "src" / "groundlab") == {"commit": others, "dirty": True}
    wheel = shutil.copytree(clone / "src" / "groundlab", clone / ".venv" / "lib" / "site-packages" / "groundlab")
    (clone / ".git" / "info" / "exclude").write_text(".venv")
    assert facts(package=wheel) == {"commit": head, "dirty": False}, "its code is this commit's"
    edit(wheel, "a.py")
    monkeypatch.setenv("GROUNDLAB_COMMIT", "0" * 40)
    assert facts(package=wheel) == facts(here=None, package=wheel) == UNKNOWN


def test_an_unpacked_archive_says_its_commit_in_its_crate_and_not_that_it_is_unchanged(clone, facts):
    shutil.rmtree(clone / ".git")
    entities = [{"@id": "./"}, {"@id": "src/", "identifier": "0123abcd"}]
    storage.write_json(clone / "ro-crate-metadata.json", {"@graph": entities})
    assert facts() == {"commit": "0123abcd", "dirty": None}
