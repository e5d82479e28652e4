"""Made-up damage: every command, every kind of config and record file, and hostile words wherever a word is taken.

Whatever comes in, the command line answers with an exit code it documents: no traceback, no line over 500 characters,
and no 0 where the input is bad for sure. What failed once stands as an example. GROUNDLAB_DAMAGES=1000 drives more.
"""

import copy
import io
import json
import os
import shutil
import signal
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import made_up
import pytest
import typer
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from groundlab import cli
from groundlab.core import paths, storage
from groundlab.lab import versions

CASES = int(os.environ.get("GROUNDLAB_DAMAGES", "100"))
SECONDS = 60  # of CPU, that one command may take
LONGEST = 500  # characters of a line
REPOSITORY = Path(__file__).parents[2]
GRID = "BabyAI-GoToLocal-v0"

drives = settings(
    max_examples=CASES,
    deadline=None,
    derandomize="GROUNDLAB_DAMAGES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)

# --- hostile words


SPECIAL = (
    "", " ", "-", "--", "..", ".", "~", "/", "nan", ".nan", "inf", "-inf", "1e999", "-1", "0", "1.5", "٣", "٣-٤", "²",
    "9" * 25, "9" * 5000, "0x" + "f" * 300, "-" + "9" * 5000, "x" * 300, "ü" * 5000, "a b", "a=b", "a.b.c=1", "=", "\t",
    "1:30", "[" * 3000, "{a: " * 1500, "[1", "{", "}", "'", '"', "&a [*a]", "*a", "!!python/object:os.system {}",
    "<<: 1", "? [1]\n: 2", "null", "true", "no", "\x1b[31mred", "\u202e", "\udcff", "😀", "../../none/x", "\n",
    "/proc/x", "/proc/nope/x.json", "http://", "http://127.0.0.1:1/v1", "tokens=-1", "cost=nan", "1,2,3",
    "!!binary aGk=",
    "[bold]", "[/bold]", "<script>", "%s%n", "$(true)", "{}", "[]", "0-99999999999", "9-3", "0-99999999", "2147483648",
)  # fmt: skip
WORDS = st.sampled_from(SPECIAL) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=()), max_size=12
).filter(lambda text: not text.startswith("--help"))
FOLDERS = ("pyproject.toml/x", "loop/x/y", "x" * 300, "/proc/x/y")
"""Where nobody can write, not even root; never a file that somebody needs: commands may be run as root."""
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(SPECIAL[:30]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def within(kind: type, low: float, high: float):
    """What an option of numbers takes, as typer reads it."""

    def good(text: str) -> bool:
        try:
            return low <= kind(text) <= high
        except ValueError:
            return False

    return good


def maybe(text: str) -> bool:
    """Nobody can say: only the form of the answer is looked at."""
    return True


def never(text: str) -> bool:
    return False


def some_paper(text: str) -> bool:
    return text in ("worlds", "mediator", "glam", "reasoning", "knowledge")


ALWAYS = ("evaluate", "always", "--world", "SimpleDoorKey", "--layouts", "0-0")
RANDOM = ("evaluate", "random", "--world", GRID, "--layouts", "0-0")
RUN = ("run", "random", "--world", GRID, "--set", "layouts=0-0", "--out", "RUN")
PLAN = ("reproduce", "--dry-run", "--only", "worlds", "--scale", "smoke")
GOALS = ("label", "goals", "--out", "OUT", "--set", "rounds=1")
EXPORTED = (("--world",), ("--world", GRID, "--format"), ("--world", GRID, "--agent"))
HOLES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("worlds", "HOLE"), never),
    (("methods", "HOLE"), never),
    (("claims", "HOLE"), some_paper),
    (("play", "HOLE"), never),
    (("play", "SimpleDoorKey", "--seed", "HOLE"), within(int, 0, 2**31 - 1)),
    (("play", "--agent", "HOLE"), never),
    (("play", "SimpleDoorKey", "--agent", "HOLE"), never),
    (("play", "--replay", "HOLE"), never),
    (("evaluate", "HOLE", *RANDOM[2:]), never),
    (("evaluate", "random", "--world", "HOLE"), never),
    (("evaluate", "random", "--world", GRID, "--layouts", "HOLE"), lambda text: text in ("0",)),
    (("evaluate", "random", "--protocol", "HOLE", "--layouts", "0-0"), never),
    (("evaluate", "random", "--protocol", "balrog", "--layouts", "HOLE"), lambda text: text in ("0",)),
    ((*RANDOM, "--seed", "HOLE"), within(int, 0, 2**31 - 1)),
    ((*RANDOM, "--set", "HOLE"), never),
    ((*RANDOM, "--set", "num_envs=HOLE"), maybe),
    ((*RANDOM, "--set", "actions=HOLE"), maybe),
    ((*RANDOM, "--checkpoint", "HOLE"), never),
    ((*RANDOM, "--planner", "HOLE"), never),
    ((*ALWAYS, "--set", "epsilon=HOLE"), maybe),
    ((*ALWAYS, "--planner", "HOLE"), never),
    ((*ALWAYS, "--model", "HOLE"), maybe),
    ((*ALWAYS, "--planner", "recorded", "--ledger", "HOLE"), never),
    ((*ALWAYS, "--planner", "recorded", "--model", "m", "--ledger", "HOLE"), never),
    ((*ALWAYS, "--planner", "openai", "--model", "m", "--ledger", "OUT/l", "--base-url", "HOLE"), never),
    ((*ALWAYS, "--planner", "local", "--model", "HOLE", "--ledger", "OUT/l"), never),
    ((*ALWAYS, "--prices", "HOLE"), maybe),
    ((*ALWAYS, "--budget", "HOLE"), maybe),
    (("evaluate", "mediator", "--world", "SimpleDoorKey", "--checkpoint", "HOLE"), never),
    (("evaluate", "glam", "--world", GRID, "--checkpoint", "HOLE"), never),
    (("run", "glam", "--world", GRID, "--out", "OUT", "--set", "model=HOLE"), never),
    (("run", "glam", "--world", GRID, "--out", "OUT", "--set", "tests=[HOLE]", "--set", "lr=-1"), never),
    (("run", "glam", "--world", GRID, "--out", "OUT", "--set", "lr=.inf", "--set", "clip=HOLE"), never),
    (("run", "knowledge", "--world", GRID, "--out", "OUT", "--set", "source=HOLE", "--set", "lr=-1"), never),
    (("run", "HOLE", "--world", GRID, "--out", "OUT"), never),
    ((*PLAN, "--scale", "HOLE"), never),
    ((*PLAN, "--seeds", "HOLE"), within(int, 1, 100)),
    ((*PLAN, "--workers", "HOLE"), within(int, 1, 1024)),
    ((*PLAN, "--executor", "HOLE"), never),
    ((*PLAN, "--executor", "slurm", "--slurm", "HOLE"), never),
    ((*PLAN, "--figure", "HOLE"), never),
    ((*PLAN, "--experiment", "HOLE"), lambda text: not text),
    ((*PLAN, "--track", "HOLE"), lambda text: text == "none"),
    ((*PLAN, "--device", "HOLE"), lambda text: text in ("auto", "cpu", "cuda") or text.startswith("cuda:")),
    ((*PLAN[:1], *PLAN[2:], "--continue", "HOLE"), never),
    (("reproduce", "--dry-run", "--scale", "smoke", "--only", "HOLE"), some_paper),
    (("figures", "--results", "HOLE"), never),
    (("figures", "--figure", "HOLE"), never),
    (("review", "--results", "HOLE"), never),
    (("compare", "HOLE", "OUT"), never),
    (("compare", "OUT", "HOLE"), never),
    (("verify", "HOLE"), never),
    (("verify", "stored", "--sample", "HOLE", "--at-most", "0.1"), never),
    (("verify", "none", "--draw", "HOLE"), never),
    (("export", "HOLE"), never),
    *((("export", "demonstrations", *option, "HOLE", "--out", "OUT"), never) for option in EXPORTED),
    ((*PLAN, "--hours", "HOLE"), maybe),
    (("bench", "HOLE"), never),
    (("pretrain", "HOLE", "--out", "OUT"), never),
    (("pretrain", "smoke-t5", "--out", "OUT", "--seed", "HOLE"), within(int, 0, 2**31 - 1)),
    (("ledger", "HOLE"), never),
    (("model", "HOLE"), never),
    (("model", "push", "HOLE", "a/b"), never),
    (("model", "push", "run", "HOLE"), never),
    (("model", "export", "HOLE"), never),
    (("model", "fetch", "--dry-run", "--scale", "HOLE"), never),
    (("model", "import-glam", "HOLE", "--out", "OUT"), never),
    (("label", "HOLE", "--out", "OUT"), lambda text: text in ("code", "preferences", "goals")),
    (("label", "goals", "--out", "OUT", "--maker", "HOLE"), never),
    (("label", "goals", "--out", "OUT", "--dataset", "HOLE"), never),
    (("label", "goals", "--out", "OUT", "--set", "rounds=HOLE"), maybe),
    (("label", "goals", "--out", "OUT", "--set", "rounds=-1", "--set", "length=HOLE"), never),
    (("label", "goals", "--out", "OUT", "--set", "chat=HOLE", "--maker", "local", "--model", "m"), never),
    (("label", "goals", "--out", "OUT", "--ledger", "HOLE"), never),
    (("label", "preferences", "--out", "OUT", "--maker", "scripted", "--set", "pairs=0", "--error", "HOLE"), never),
    (("HOLE",), never),
)
PLACES: tuple[tuple[str, ...], ...] = (
    (*RANDOM, "--json", "HOLE"),
    (*ALWAYS, "--record", "HOLE"),
    ("run", "random", "--world", GRID, "--set", "layouts=0-0", "--out", "HOLE"),
    (*PLAN, "--results", "HOLE"),
    ("pretrain", "smoke-t5", "--out", "HOLE"),
    (*GOALS, "--out", "HOLE"),
    (*ALWAYS, "--ledger", "HOLE"),
)  # a file or a folder is written there


# --- one command, in this process


class Answer(NamedTuple):
    """How a command ended, and what is wrong with that; nothing where all is well."""

    code: int
    fault: str
    said: str


class TooSlow(BaseException):
    """No answer in `SECONDS` of CPU."""


def ask(*arguments: str) -> Answer:
    """Run the command line in this process, as a user's shell would."""
    out, environment, before = io.StringIO(), dict(os.environ), (sys.argv, sys.stdin)
    code, fault = 0, ""

    def ring(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        sys.argv, sys.stdin = ["groundlab", *arguments], io.StringIO("")
        with redirect_stdout(out), redirect_stderr(out):
            cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except TooSlow:
        fault = f"no answer in {SECONDS} s"
    except BaseException:
        fault = traceback.format_exc()[-3000:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.argv, sys.stdin = before
        os.environ.clear()
        os.environ.update(environment)
    said = out.getvalue()
    longest = max(map(len, said.splitlines()), default=0)
    if not fault and longest > LONGEST:
        fault = f"a line of {longest} characters"
    return Answer(code, fault or ("a traceback is told" if "Traceback (most" in said else ""), said)


def judge(answer: Answer, bad: bool) -> None:
    """Fails on a traceback, a long line, an exit code that nobody documents, and on 0 for what is surely bad."""
    assert not answer.fault, answer.fault
    assert answer.code in (0, 1, 2, 75), f"exit {answer.code}: {answer.said[-600:]}"
    assert not (bad and answer.code == 0), f"exit 0: {answer.said[-600:]}"


@pytest.fixture(scope="module")
def ground(tmp_path_factory, monkeypatch_module, forget_root):
    """A clone's configs in a folder of their own, in which commands are run; a finished run lies in `run`."""
    home = tmp_path_factory.mktemp("clone")
    shutil.copy(REPOSITORY / "pyproject.toml", home)
    for name in ("configs", "requirements"):
        shutil.copytree(REPOSITORY / name, home / name)
    (home / "notebooks").symlink_to(REPOSITORY / "notebooks")
    monkeypatch_module.setenv("GROUNDLAB_ROOT", str(home))
    for name, value in {"TIMEOUT": "1", "ATTEMPTS": "1"}.items():
        monkeypatch_module.setenv(f"GROUNDLAB_LLM_{name}", value)
    monkeypatch_module.chdir(home)
    forget_root()
    Path("loop").symlink_to("loop")
    assert ask(*(part.replace("RUN", "run") for part in RUN)).code == 0
    learnt = ("--set", "iterations=1", "--set", "trajectories=1", "--set", "layouts=0-0", "--out", "learnt")
    assert ask("run", "mediator", "--world", "SimpleDoorKey", *learnt).code == 0
    small_version(Path("version"))
    assert ask("compare", "version", "version").code == 0, "what is not damaged is taken"
    assets = REPOSITORY / "src" / "groundlab" / "assets" / "knowledge"
    shutil.copytree(assets / "pretraining-s20", "dataset")
    Path("ledger.jsonl").write_bytes(b"".join((assets / "goals-ledger.jsonl").read_bytes().splitlines(True)[:5]))
    yield home
    forget_root()


def small_version(folder: Path) -> None:
    """Two runs of a published version, packed as there, sealed as a version: it is read anew for each damage."""
    for run in RUNS:
        shutil.copytree(VERSION / run, folder / run)
        manifest = folder / run / "manifest.json"
        manifest.write_bytes(storage.read_bytes(manifest))
    made_up.seal_version(folder)
    versions.pack_records(folder)


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def filled(arguments: tuple[str, ...], word: str) -> list[str]:
    """The arguments with the word in its hole; `OUT` is a folder that is not there yet."""
    shutil.rmtree("out", ignore_errors=True)
    return [part.replace("HOLE", word).replace("OUT", "out") for part in arguments]


FAILED_ONCE: tuple[tuple[str, ...], ...] = (
    (*RANDOM, "--layouts", "0-99999999999999"),
    (*RANDOM, "--layouts", ""),
    (*RANDOM, "--json", "configs"),
    (*RANDOM, "--json", "/proc/nope/x.json"),
    (*RANDOM, "--set", "x=" + "y" * 5000),
    (*ALWAYS, "--set", "ask_lambda=[1"),
    (*ALWAYS, "--set", "ask_lambda=!!python/object:os.system {}"),
    (*ALWAYS, "--set", "ask_lambda=.nan"),
    (*ALWAYS, "--set", "chat=3", "--model", "m"),
    (*ALWAYS, "--set", "chat.temperature=.inf"),
    ("run", "glam", "--world", GRID, "--out", "OUT", "--set", "tests=[Nope]"),
    ("run", "glam", "--world", GRID, "--out", "OUT", "--set", "model=quick-t6"),
    ("run", "reasoning", "--world", "Reasoning-GoTo-v0", "--out", "OUT", "--set", "clip=.inf"),
    ("run", "knowledge", "--world", GRID, "--out", "OUT", "--set", "form=goals", "--set", "threshold=.nan"),
    (*RUN[:-1], "/proc/x"),
    (*RUN[:-1], "x" * 300),
    (*PLAN, "--seeds", "1000000"),
    (*PLAN, "--workers", "2147483648"),
    (*PLAN, "--results", "pyproject.toml"),
    ("reproduce", "--dry-run", "--figure", "nothing like a figure"),
    ("label", "goals", "--out", "OUT", "--set", "chat=3"),
    ("label", "goals", "--out", "OUT", "--maker", "scripted", "--model", "m"),
)


@pytest.mark.parametrize("arguments", FAILED_ONCE, ids=lambda arguments: " ".join(arguments)[:80])
def test_what_failed_once_is_answered_in_a_line_that_a_shell_can_show(ground, arguments):
    answer = ask(*filled(arguments, ""))
    judge(answer, bad=True)
    assert answer.code == 2


def test_ctrl_c_is_no_error_and_says_what_continues(ground, monkeypatch):
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("groundlab.worlds.families", pressed)
    answer = ask("worlds")
    assert (answer.code, answer.said) == (75, "groundlab: interrupted; the same command continues\n")


# --- damage to files


VERSION = min(file.parent for file in (REPOSITORY / "results").glob("*/manifest.json"))
RUNS = [file.parent.relative_to(VERSION) for file in sorted(VERSION.glob("*/runs/*/manifest.json.gz"))[:2]]
PARTS = ("config.yaml", "manifest.json.gz", "evaluation.json.gz", "metrics.jsonl.gz")
SMOKE = ("reproduce", "--dry-run", "--scale", "smoke", "--only")
TRAINED = ("evaluate", "mediator", "--world", "SimpleDoorKey", "--layouts", "0-0", "--checkpoint", "new/learnt")
AGAIN = (*RUN[:-1], "new/run")


class Kind(NamedTuple):
    """A file below `new`, a command that reads it, and whether no damage at all may pass (`sealed`)."""

    file: str
    arguments: tuple[str, ...]
    sealed: bool = False


KINDS = (
    *(Kind(f"configs/{paper}/smoke.yaml", (*SMOKE, paper)) for paper in ("worlds", "mediator", "glam", "knowledge")),
    Kind("configs/slurm.yaml", (*PLAN, "--executor", "slurm", "--slurm", "new/configs/slurm.yaml")),
    *(Kind(f"run/{name}", AGAIN) for name in ("config.yaml", "manifest.json", "evaluation.json")),
    *(Kind(f"run/{name}", ("model", "push", "new/run", "a/b")) for name in ("manifest.json", "evaluation.json")),
    *(Kind(f"learnt/checkpoint/1/{name}", TRAINED, True) for name in ("checkpoint.json", "network.safetensors")),
    *(Kind(f"version/{RUNS[0]}/{name}", ("review", "--results", "new/version"), True) for name in PARTS),
    *(Kind(f"version/{RUNS[0]}/{name}", ("compare", "new/version", "version"), True) for name in PARTS),
    Kind("version/manifest.json", ("review", "--results", "new/version"), True),
    Kind("version/manifest.json", ("figures", "--results", "new/version"), True),
    Kind("version/manifest.json", ("verify", "new/version", "--at-most", "0.1"), True),
    Kind("version/manifest.json", ("review", "--results", "new")),
    Kind("ledger.jsonl", ("ledger", "new/ledger.jsonl")),
    Kind("ledger.jsonl", (*GOALS, "--ledger", "new/ledger.jsonl")),
    Kind("dataset/card.json", (*GOALS, "--dataset", "new/dataset")),
)
BOMB = "a: &a [x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
CONTENTS = (
    b"", b"{}", b"[]", b"null", b"3", b'"x"', b"[1]", b"{", b"\0", b"\xff\xfe{\0}\0", "é".encode("latin-1"),
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"[" * 100_000, b'{"a": ' * 3000, b"a: " + b"9" * 5000,
    b'{"a": ' + b"9" * 5000 + b"}", b"a: !!python/object:os.system {}", b"a: &a [*a]", b"runs: [{method: x}]",
    b'[{"rows": 3}]', b'{"step": "x"}', b"[NaN]", b"x" * 5000, b"paper: [" + b"9, " * 3000 + b"]", BOMB.encode(),
    b"{1: 2, a: 3}", b"? {a: b}\n: c",
)  # fmt: skip
DAMAGES = (
    st.tuples(st.just("content"), st.sampled_from(CONTENTS))
    | st.tuples(st.just("cut"), st.floats(0, 0.95))
    | st.tuples(st.just("byte"), st.tuples(st.floats(0, 0.99), st.integers(0, 255)))
    | st.tuples(st.just("value"), st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=6), TREES))
    | st.tuples(st.sampled_from(("gone", "folder", "loop")), st.none())
)


def damage(file: Path, how: str, what: Any) -> bool:
    """Break a file; returns whether it now differs in more than a byte."""
    content = file.read_bytes()
    file.unlink()
    if how == "folder":
        file.mkdir()
    elif how == "loop":
        file.symlink_to(file.name)
    elif how == "content":
        file.write_bytes(what)
    elif how == "cut":
        file.write_bytes(content[: int(len(content) * what)])
    elif how == "byte":
        place = int(len(content) * what[0])
        file.write_bytes(content[:place] + bytes([what[1]]) + content[place + 1 :])
        return False
    elif how == "value":
        changed = with_value(file, content, *what)
        file.write_bytes(changed)
        return changed != content
    return True


def with_value(file: Path, content: bytes, steps: list[int], value: Any) -> bytes:
    """The content with another value somewhere in it; itself where it has no structure."""
    if file.suffix not in (".json", ".yaml"):
        return content
    tree = node = json.loads(content) if file.suffix == ".json" else copy.deepcopy(yaml.safe_load(content))
    before = copy.deepcopy(tree)
    for number, step in enumerate(steps):
        keys = list(node) if isinstance(node, dict) else range(len(node))
        if not keys:
            break
        key = keys[step % len(keys)]
        if number == len(steps) - 1 or not isinstance(node[key], dict | list):
            node[key] = value
            break
        node = node[key]
    if json.dumps(tree, sort_keys=True, default=str) == json.dumps(before, sort_keys=True, default=str):
        return content
    return (json.dumps(tree) if file.suffix == ".json" else yaml.dump(tree)).encode("utf-8", "surrogatepass")


def test_each_command_has_a_place_for_hostile_words():
    commands = typer.main.get_command(cli.app).commands
    assert set(commands) == {arguments[0] for arguments, _ in HOLES} - {"HOLE"}


@drives
@given(st.sampled_from(HOLES), WORDS)
def test_hostile_words_are_answered_in_a_line(ground, hole, word):
    arguments, good = hole
    judge(ask(*filled(arguments, word)), bad=not good(word) and word != "--")


@settings(drives, max_examples=max(10, CASES // 10))
@given(st.sampled_from(PLACES), st.sampled_from(FOLDERS))
def test_places_that_cannot_be_written_are_told_before_the_work(ground, arguments, place):
    judge(ask(*filled(arguments, place)), bad="--dry-run" not in arguments or "/proc" not in place)


@drives
@given(st.sampled_from(KINDS), DAMAGES)
@example(KINDS[-1], ("value", ([15], [])))
def test_damaged_files_are_told_in_a_line(ground, kind, how):
    judge(*read_damaged(kind, *how))


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: repr(content[:20]))
def test_a_config_with_nothing_of_its_own_in_it_is_refused(ground, content):
    judge(read_damaged(KINDS[0], "content", content)[0], bad=True)


def read_damaged(kind: Kind, how: str, what: Any) -> tuple[Answer, bool]:
    """(the answer of the command that reads a fresh copy of a file with this damage, whether it may not be 0)."""
    shutil.rmtree("new", ignore_errors=True)
    top = kind.file.split("/")[0]
    Path("new").mkdir()
    (shutil.copytree if Path(top).is_dir() else shutil.copy)(top, Path("new", top))
    differs = damage(Path("new") / kind.file, how, what)
    if top == "configs":
        os.environ["GROUNDLAB_ROOT"] = str(_root("new"))
        paths.find_root.cache_clear()
    try:
        answer = ask(*filled(kind.arguments, ""))
    finally:
        os.environ["GROUNDLAB_ROOT"] = str(Path.cwd())
        paths.find_root.cache_clear()
    return answer, kind.sealed and differs


def _root(folder: str) -> Path:
    """The folder as a clone's root."""
    shutil.copy("pyproject.toml", folder)
    Path(folder, "requirements").symlink_to(Path("requirements").absolute())
    Path(folder, "notebooks").symlink_to(REPOSITORY / "notebooks")
    return Path(folder).absolute()
