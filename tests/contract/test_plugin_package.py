"""A package of its own adds a world, a method, a table and a paper, and no file of groundlab is edited.

The package is the one that docs/extend.md prints: its code blocks are copied from the page, so the page is tested too.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
pytestmark = pytest.mark.integration


def _write_notebook(file: Path, code: str) -> None:
    first, *others = (nbformat.v4.new_code_cell(cell.strip()) for cell in code.split("# %%\n"))
    first.metadata["tags"] = ["parameters"]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[first, *others], metadata=kernel), file)


def _install(target: Path) -> None:
    """Write the package of the page, and what pip writes of its pyproject.toml."""
    files = dict(_BLOCK.findall((ROOT / "docs" / "extend.md").read_text()))
    project = tomllib.loads(files.pop("pyproject.toml"))["project"]
    for name, text in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".ipynb"):
            _write_notebook(target / name, text)
        else:
            (target / name).write_text(text)
    about = target / f"{project['name']}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{n} = {v}" for n, v in points.items()))]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def groundlab(tmp_path_factory) -> Callable[..., str]:
    """Run the command line with the package installed: groundlab("worlds") -> what it printed."""
    target = tmp_path_factory.mktemp("site")
    _install(target)
    path = os.pathsep.join(filter(None, (str(target), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}

    def call(*arguments: object) -> str:
        command = [sys.executable, "-m", "groundlab", *map(str, arguments)]
        answer = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=500)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    return call


def _success(told: str) -> float:
    return float(re.search(r"success (\d+(?:\.\d)?) %", told)[1])


def test_the_package_is_listed_like_our_own(groundlab):
    worlds = groundlab("worlds")
    assert "worlds of other packages: 1" in worlds and "Tiny-GoToObj-v0" in worlds
    (row,) = [line for line in groundlab("methods").splitlines() if "tiny-bandit" in line]
    assert "learns which actions pay" in row and " tiny " in row
    described = groundlab("methods", "tiny-bandit")
    assert "worlds: Tiny-GoToObj-v0" in described and "Step size of the preferences." in described


def test_its_method_runs_on_its_world_and_ours_run_there_too(groundlab, tmp_path):
    told = groundlab("run", "tiny-bandit", "--world", "Tiny-GoToObj-v0", "--out", tmp_path / "bandit")
    assert "tiny-bandit-Tiny-GoToObj-v0-s0, sampled: " in told and "success" in told
    assert len((tmp_path / "bandit" / "metrics.jsonl").read_text().splitlines()) == 5
    chance, rule = (
        groundlab("evaluate", method, "--world", "Tiny-GoToObj-v0", "--layouts", "0-99")
        for method in ("random", "tiny-ahead")
    )
    assert "random on Tiny-GoToObj-v0" in chance
    assert _success(rule) > _success(chance)  # which walks in circles more often


def test_its_paper_is_reproduced_with_its_notebook_and_its_table(groundlab, tmp_path):
    told = groundlab("reproduce", "--only", "tiny", "--scale", "smoke", "--results", tmp_path)
    (version,) = (file.parent for file in (tmp_path / ".scratch").glob("[!.]*/version.json"))
    assert f"results: {version}" in told
    assert (version / "tiny" / "executed" / "tiny.ipynb").is_file() and (version / "review.html").is_file()
    table = (version / "tiny" / "tables" / "tiny-success.csv").read_text()
    assert table.splitlines()[0] == "world,success,steps,episodes" and "Tiny-GoToObj-v0" in table
    assert "nothing to do" in groundlab("reproduce", "--only", "tiny", "--scale", "smoke", "--results", tmp_path)


NAMES = """
from groundlab.lab.run_hash import hash_run
from groundlab.papers import registry
for run in (("tiny-bandit", "Tiny-GoToObj-v0"), ("random", "Tiny-GoToObj-v0"), ("random", "BabyAI-GoToObj-v0")):
    print(hash_run(registry.resolve(*run, 0, {})))
"""


def test_an_edit_of_the_package_renames_the_runs_of_its_methods_and_worlds_and_no_others(tmp_path):
    _install(tmp_path)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))

    def names() -> list[str]:
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, "-c", NAMES]
        return subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()

    method, world, ours = names()
    (file,) = tmp_path.glob("*/worlds.py")
    file.write_text(file.read_text() + "# a comment\n")
    edited = names()
    assert edited[0] != method and edited[1] != world and edited[2] == ours
