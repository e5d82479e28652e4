"""Hostile words, folders that cannot be written, and damaged files: every command answers in a line.

Whatever comes in, the command line answers with an exit code it documents: no traceback, no line over 500 characters,
and no 0 where the input is bad for sure.
"""

import shlex
import shutil
from itertools import product
from pathlib import Path

import pytest
import typer

from groundlab import cli
from groundlab.core import paths
from groundlab.core.versions import Version, versions_below

REPOSITORY = Path(__file__).parents[2]
GRID = "BabyAI-GoToLocal-v0"
RANDOM = f"evaluate random --world {GRID} --layouts 0-0"
ALWAYS = "evaluate always --world SimpleDoorKey --layouts 0-0"
PLAN = "reproduce --dry-run --only worlds --scale smoke"
REASONING = "run reasoning --world Reasoning-GoTo-v0 --out OUT"
KNOWLEDGE = f"run knowledge --world {GRID} --out OUT"
GOALS = "label goals --out OUT --set rounds=1"

WORDS = ("\x1b[31m[/bold] ../none/x {a: [1", "9" * 5000)
HOLES = f"""
    HOLE
    worlds HOLE
    methods HOLE
    claims HOLE
    play HOLE
    play SimpleDoorKey --seed HOLE
    play --agent HOLE
    evaluate HOLE --world {GRID} --layouts 0-0
    evaluate random --world HOLE
    evaluate random --world {GRID} --layouts HOLE
    evaluate random --protocol HOLE --layouts 0-0
    {RANDOM} --seed HOLE
    {RANDOM} --set HOLE
    {RANDOM} --checkpoint HOLE
    {RANDOM} --planner HOLE
    {ALWAYS} --set ask_lambda=HOLE
    {ALWAYS} --planner HOLE
    {ALWAYS} --planner recorded --model m --ledger HOLE
    {ALWAYS} --planner openai --model m --ledger OUT/l --base-url HOLE
    {ALWAYS} --planner local --model HOLE --ledger OUT/l
    evaluate glam --world {GRID} --checkpoint HOLE
    run HOLE --world {GRID} --out OUT
    run glam --world {GRID} --out OUT --set model=HOLE
    run glam --world {GRID} --out OUT --set tests=[HOLE] --set lr=-1
    {KNOWLEDGE} --set source=HOLE --set lr=-1
    {PLAN} --scale HOLE
    {PLAN} --seeds HOLE
    {PLAN} --workers HOLE
    {PLAN} --executor HOLE
    {PLAN} --executor slurm --slurm HOLE
    {PLAN} --figure HOLE
    {PLAN} --experiment HOLE
    {PLAN} --track HOLE
    {PLAN} --device HOLE
    reproduce --dry-run --scale smoke --only HOLE
    reproduce --only worlds --scale smoke --continue HOLE
    figures --results HOLE
    figures --figure HOLE
    review --results HOLE
    compare HOLE OUT
    verify HOLE
    verify stored --sample HOLE --at-most 0.1
    bench HOLE
    pretrain HOLE --out OUT
    pretrain smoke-t5 --out OUT --seed HOLE
    ledger HOLE
    model HOLE
    model export HOLE
    model fetch --dry-run --scale HOLE
    model import-glam HOLE --out OUT
    label HOLE --out OUT
    label goals --out OUT --maker HOLE
    label goals --out OUT --dataset HOLE
    label goals --out OUT --ledger HOLE
"""
FAILED_ONCE = f"""
    {RANDOM} --layouts 0-99999999999999
    {RANDOM} --layouts ""
    {RANDOM} --json configs
    {RANDOM} --json /proc/nope/x.json
    {ALWAYS} --set "ask_lambda=!!python/object:os.system {{}}"
    {ALWAYS} --set ask_lambda=.nan
    {ALWAYS} --set chat=3 --model m
    {REASONING} --set clip=.inf
    {KNOWLEDGE} --set form=goals --set threshold=.nan
    run random --world {GRID} --set layouts=0-0 --out /proc/x
    {PLAN} --seeds 1000000
    {PLAN} --results pyproject.toml
    label goals --out OUT --set chat=3
    label goals --out OUT --maker scripted --model m
"""
PLACES = f"""
    {RANDOM} --json PLACE
    {ALWAYS} --record PLACE
    {ALWAYS} --ledger PLACE
    run random --world {GRID} --set layouts=0-0 --out PLACE
    {PLAN} --results PLACE
    pretrain smoke-t5 --out PLACE
    {GOALS} --out PLACE
"""


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.fixture
def ask(groundlab):
    """Give a command line words that are bad for sure; returns what it said."""

    def call(line: str, **words: str) -> str:
        arguments = shlex.split(line)
        for hole, word in {"OUT": "out", **words}.items():
            arguments = [part.replace(hole, word) for part in arguments]
        code, out, error = groundlab(*arguments)
        said = out + error
        assert "Traceback (most" not in said and max(map(len, said.splitlines()), default=0) <= 500, said[-3000:]
        assert code in (1, 2, 75), f"exit {code}: {said[-600:]}"
        return said

    yield call
    shutil.rmtree("out", ignore_errors=True)


@pytest.fixture(scope="module")
def ground(tmp_path_factory, forget_root):
    """A clone's configs in a folder of their own, in which commands are run; a finished run lies in `run`."""
    home = tmp_path_factory.mktemp("clone")
    shutil.copy(REPOSITORY / "pyproject.toml", home)
    for name in ("configs", "requirements"):
        shutil.copytree(REPOSITORY / name, home / name)
    (home / "notebooks").symlink_to(REPOSITORY / "notebooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROUNDLAB_ROOT", str(home))
        patch.setenv("GROUNDLAB_LLM_TIMEOUT", "1")
        patch.setenv("GROUNDLAB_LLM_ATTEMPTS", "1")
        patch.chdir(home)
        forget_root()
        Path("loop").symlink_to("loop")
        assets = REPOSITORY / "src" / "groundlab" / "assets" / "knowledge"
        shutil.copytree(assets / "pretraining-s20", "dataset")
        Path("ledger.jsonl").write_bytes(b"".join((assets / "goals-ledger.jsonl").read_bytes().splitlines(True)[:5]))
        _small_version(Path("version"))
        yield home
    forget_root()


PUBLISHED = versions_below(REPOSITORY / "results")[0]
RUN = min(PUBLISHED.runs(), key=lambda run: run["cpu_seconds"])


def _small_version(folder: Path) -> None:
    """The seeds of a variant of a published version as one of their own."""
    runs = [run for run in PUBLISHED.runs() if run["file"] == RUN["file"]]
    version = Version.begin(folder, {**PUBLISHED.facts, "version": folder.name})
    version.add((run, {name: PUBLISHED.read(run, name) for name in run["records"]}) for run in runs)
    assert {run["file"] for run in version.runs()} == {RUN["file"]}


def test_each_command_has_a_place_for_hostile_words():
    commands = typer.main.get_command(cli.app).commands
    assert set(commands) == {line.split()[0] for line in lines(HOLES)} - {"HOLE"}


@pytest.mark.parametrize("line", lines(HOLES))
def test_hostile_words_are_answered_in_a_line(ground, ask, line):
    for word in WORDS:
        ask(line, HOLE=word)


@pytest.mark.parametrize("line", lines(FAILED_ONCE))
def test_what_failed_once_is_answered_in_a_line_that_a_shell_can_show(ground, ask, line):
    ask(line)


@pytest.mark.parametrize("line", lines(PLACES))
def test_places_that_cannot_be_written_are_named_before_the_work(ground, ask, line):
    for place in ("loop/x/y", "x" * 300):
        ask(line, PLACE=place)


def test_ctrl_c_is_no_error_and_says_what_continues(ground, groundlab, monkeypatch):
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("groundlab.worlds.families", pressed)
    assert groundlab("worlds") == (75, "", "groundlab: interrupted; the same command continues\n")


# Damaged files: a file below `new`, and a command that reads it


FILES = {
    **{
        f"configs/{paper}/smoke.yaml": f"reproduce --dry-run --scale smoke --only {paper}"
        for paper in ("worlds", "glam")
    },
    "configs/slurm.yaml": f"{PLAN} --executor slurm --slurm new/configs/slurm.yaml",
    f"version/{RUN['file']}": "review --results new/version",
    "version/version.json": "compare new/version version",
    "ledger.jsonl": "ledger new/ledger.jsonl",
    "dataset/card.json": f"{GOALS} --dataset new/dataset",
}


def become_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def become_a_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


CORRUPTIONS = {
    "gone": Path.unlink,
    "a folder": become_a_folder,
    "a loop": become_a_loop,
    "cut": lambda file: file.write_bytes(file.read_bytes()[: len(file.read_bytes()) // 2] + b"{"),
    "binary": lambda file: file.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    "a list": lambda file: file.write_text("[1]\n"),
    "brackets": lambda file: file.write_text("[" * 100_000 + "\n"),
    "digits": lambda file: file.write_text('{"a": ' + "9" * 5000 + "}\n"),
}


HARMLESS = [("ledger.jsonl", "cut"), ("configs/slurm.yaml", "cut")]  # by a kill; within a comment
PAIRS = [pair for pair in product(FILES, CORRUPTIONS) if pair not in HARMLESS]


@pytest.mark.parametrize(("file", "corruption"), PAIRS)
def test_a_damaged_file_is_named_in_a_line(file, corruption, ground, ask, monkeypatch):
    shutil.rmtree("new", ignore_errors=True)
    top = Path(file).parts[0]
    Path("new").mkdir()
    (shutil.copytree if Path(top).is_dir() else shutil.copy)(top, Path("new", top))
    if top == "configs":
        for name in ("pyproject.toml", "requirements", "notebooks"):
            Path("new", name).symlink_to(Path(name).absolute())
        monkeypatch.setenv("GROUNDLAB_ROOT", str(Path("new").absolute()))
    CORRUPTIONS[corruption](Path("new", file))
    paths.find_root.cache_clear()
    try:
        said = ask(FILES[file])
    finally:
        paths.find_root.cache_clear()
    assert Path(file).name in said or str(Path("new", file).parent) in said
