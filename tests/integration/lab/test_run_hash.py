"""A run is renamed by what its result depends on, and by nothing else; edits are made in a copy of the package."""

import ast
import fnmatch
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import groundlab
from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.lab import config, import_closure, run_hash
from groundlab.papers import registry

PACKAGE = Path(groundlab.__file__).parent
RUN = ("mediator", "SimpleDoorKey")


class Copy:
    """A copy of the package, and what a run would be called if its code and assets were the package's."""

    def __init__(self, home: Path):
        self.home = home

    def hash(self, method: str = RUN[0], world: str = RUN[1], **settings) -> str:
        return run_hash.hash_run(registry.resolve(method, world, 0, settings))

    def write(self, name: str, text: str) -> None:
        (self.home / name).parent.mkdir(parents=True, exist_ok=True)
        (self.home / name).write_text(text)

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.home / name).read_text()
        assert text.count(old) == 1
        self.write(name, text.replace(old, new))

    def append(self, name: str, text: str) -> None:
        self.write(name, (self.home / name).read_text() + text)


@pytest.fixture
def copy(tmp_path, monkeypatch, laboratory) -> Copy:
    home = tmp_path / "src" / "groundlab"
    shutil.copytree(PACKAGE, home, ignore=shutil.ignore_patterns("__pycache__", "models"))
    monkeypatch.setattr(run_hash, "package_folder", lambda name="groundlab": home)
    return Copy(home)


def _source_of(method: str, world: str) -> str:
    """The file of a method's module, relative to the package."""
    return Path(str(registry.load(method, world).__file__)).relative_to(PACKAGE).as_posix()


def test_a_new_world_method_paper_or_figure_and_the_laboratory_rename_no_run(copy):
    runs = [RUN, ("random", "BabyAI-GoToLocal-v0"), ("rnd", "Crafter-Text-Reward")]
    before = [copy.hash(*run) for run in runs]
    new = 'yield World("BabyAI-GoToNew-v0", (ball,), "go to it", "new")'
    red = 'red_ball = "go to a/the red ball"\n'
    copy.replace("worlds/registry.py", red, f"{red}    {new}\n")
    task = '_task("EatCow", "eat_cow"),'
    copy.replace("worlds/crafter/rules.py", task, f'{task} _task("New", "wake_up"),')
    row = 'Method("new", f"{_HERE}.new", "a new method"),'
    copy.replace("papers/glam/__init__.py", "    methods=(\n", f"    methods=(\n        {row}\n")
    copy.replace("papers/mediator/__init__.py", "exhibits=(", 'exhibits=("groundlab.papers.mediator.tables", ')
    copy.write("papers/new/__init__.py", 'PAPER = "a new paper"\n')
    copy.write("papers/new/agent.py", "from groundlab.learning.returns import gae\n")
    laboratory = [copy.home / "lab" / name for name in ("progress.py", "plan.py")]
    for file in [*laboratory, *(copy.home / "report").glob("*.py"), *(copy.home / "papers").glob("*/figures.py")]:
        file.write_text(file.read_text() + "\nNEW = 1\n")
    assert [copy.hash(*run) for run in runs] == before


def test_a_changed_prompt_or_tokenizer_renames_the_runs_that_read_it_and_no_other(copy):
    readers = {
        "prompts/mediator/SimpleDoorKey.txt": RUN,
        "prompts/reasoning/reasoning.txt": ("reasoning", "Reasoning-GoTo-v0"),
        "prompts/reasoning/invalid-direct-short.txt": ("direct-zero-shot", "Reasoning-GoTo-v0"),
        "prompts/glam/probes.json": ("glam", "BabyAI-GoToLocal-v0"),
        "prompts/knowledge/preference-segments.txt": ("knowledge", "BabyAI-Text-GoToLocal-RedBall-S20"),
        "tokenizers/drrn.json": ("drrn", "BabyAI-GoToLocal-v0"),
    }
    for name, run in readers.items():
        before, other = copy.hash(*run), copy.hash("random", "BabyAI-GoToLocal-v0")
        copy.append(f"assets/{name}", "\n")
        assert copy.hash(*run) != before, name
        assert copy.hash("random", "BabyAI-GoToLocal-v0") == other


def test_a_formula_a_constant_and_a_default_rename_the_runs_that_use_them(copy):
    other = copy.hash("random", "BabyAI-GoToLocal-v0")
    method = _source_of(*RUN)
    settings, default = str(Path(method).with_name("settings.py")), "ask_lambda: float = Field(0.0"
    for name, old, new in (
        ("learning/returns.py", "alive = 1.0 - dones", "alive = 0.9 - dones"),
        (method, "GO_ON, ASK = 0, 1", "GO_ON, ASK = 1, 0"),
        (settings, f"{default}1", f"{default}2"),
    ):
        before = copy.hash()
        copy.replace(name, old, new)
        assert copy.hash() != before, name
    assert copy.hash("random", "BabyAI-GoToLocal-v0") == other
    for name in ("core/run.py", "worlds/doorkey.py", "learning/ppo.py", "papers/mediator/skills.py"):
        before = copy.hash()
        copy.append(name, f"CHANGE = {name!r}\n")
        assert copy.hash() != before, name


def test_a_run_is_renamed_by_the_rows_of_the_worlds_that_it_plays_and_by_no_other_row(copy, monkeypatch):
    run, tested = ("drrn", "BabyAI-GoToLocal-v0"), {"tests": ["BabyAI-GoToObj-v0 fixed-mission"]}
    before, with_test = copy.hash(*run), copy.hash(*run, **tested)
    row = worlds.WORLDS["BabyAI-GoToObj-v0"]
    level = row.levels[0]._replace(objects=2)
    monkeypatch.setitem(worlds.WORLDS, row.name, replace(row, levels=(level,)))
    assert copy.hash(*run) == before and copy.hash(*run, **tested) != with_test
    row = worlds.WORLDS[run[1]]
    monkeypatch.setitem(worlds.WORLDS, row.name, replace(row, summary="told in other words"))
    assert copy.hash(*run) == before
    monkeypatch.setitem(worlds.WORLDS, row.name, replace(row, language="french"))
    assert copy.hash(*run) != before


def test_settings_at_their_defaults_do_not_count_nested_ones_neither(copy):
    assert copy.hash(plans="head", fidelity={"repeat": "whole"}) == copy.hash()
    remaining = {"repeat": "remaining"}
    assert copy.hash(fidelity=remaining) != copy.hash()
    assert copy.hash(fidelity=remaining | {"carry_inside": False}) == copy.hash(fidelity=remaining)


def test_every_asset_that_a_methods_code_names_is_declared():
    texts = [file.relative_to(PACKAGE / "assets").as_posix() for file in (PACKAGE / "assets").rglob("*.*")]
    declared_somewhere = {name for run in _all_methods() for name in _declared(*run)}
    for run in _all_methods():
        modules = import_closure.closure([registry.load(*run).__name__], {"groundlab": PACKAGE})
        for module, file in modules.items():
            named = {text for pattern in _asset_patterns(module, file) for text in fnmatch.filter(texts, pattern)}
            # a shared module may hold what only some methods ask it for
            shared = module.startswith(("groundlab.language.", "groundlab.learning.", "groundlab.worlds.text_env."))
            assert named <= (declared_somewhere if shared else _declared(*run)), (run, module)


def _all_methods() -> list[tuple[str, str]]:
    """Every method that a config names, with one of its worlds."""
    entries = [
        entry
        for scale in ("smoke", "full")
        for paper in config.known_papers()
        for entry in config.load(paper, scale).runs
    ]
    return sorted({entry.method: (entry.method, entry.worlds[0]) for entry in entries}.values())


def _declared(method: str, world: str) -> set[str]:
    return {file.relative_to(PACKAGE / "assets").as_posix() for file in run_hash.declared_assets(method, world)}


@cache
def _asset_patterns(module: str, file: Path) -> set[str]:
    """The strings of a module that may be paths of assets, with `*` for what f-strings fill in."""
    found = set()
    for node in (node for statement in import_closure.parse(module, file).statements for node in ast.walk(statement)):
        if isinstance(node, ast.JoinedStr):
            found.add("".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return {text for text in found if "/" in text.strip("*/") and not text.startswith("*")}


OPENED = """
import json, sys
from pathlib import Path
from groundlab.core.run import Run
from groundlab.lab import run_hash
from groundlab.papers import registry
home, opened = run_hash.package_folder(), []
for method in ("direct-zero-shot", "reasoning-zero-shot"):
    spec = registry.resolve(method, "Reasoning-GoTo-v0", 0, json.loads(sys.argv[1]))
    known = run_hash.input_digests(method, spec.world, spec.settings)
    registry.load(method, spec.world)
    if method == "direct-zero-shot":
        sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    opened.clear()
    registry.execute(Run(Path(sys.argv[2], method), spec))
    read = {Path(name).relative_to(home).as_posix() for name in opened if name.startswith(str(home / "assets"))}
    print(json.dumps([sorted(read - set(known)), sorted(read)]))
"""


def test_every_asset_that_a_run_opens_is_in_its_hash(tmp_path):
    """In a process of its own: here, other tests may have read them."""
    settings = json.dumps({"layouts": "0-0", "num_envs": 1, "max_new_tokens": 4, "short_prompts": False})
    command = [sys.executable, "-c", OPENED, settings, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    for prompt, line in zip(("direct", "reasoning"), answer.stdout.splitlines()[-2:], strict=True):
        unknown, read = json.loads(line)
        assert not unknown and f"assets/prompts/reasoning/{prompt}.txt" in read


def test_an_asset_that_is_declared_and_not_there_is_refused_by_name(copy):
    (copy.home / "assets/tokenizers/drrn.json").unlink()
    with pytest.raises(GroundlabError, match=r"drrn declares the asset 'tokenizers/drrn\.json'"):
        copy.hash("drrn", "BabyAI-GoToLocal-v0")
