"""Mutants: does a test fail where the code is changed? In a sample of each file, by the tests beside it.

    nox -s mutants                                  30 mutants of each file of TESTS
    nox -s mutants -- 40 learning/returns.py        40 of one

The changes are mutmut's. Its runner is not used, as it leaves out what is decorated: compiled loops and dataclasses.
Each mutant is written into a copy of the package, and a fork that has the libraries loaded already runs the tests that
pass through the changed function (those of a session's fixture may be missed).
Left out: annotations, docstrings, the words of errors, and two of the three changes of a text.
"""

import contextlib
import difflib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.file_mutation import MutationVisitor
from mutmut.node_mutation import mutation_operators

ROOT = Path(__file__).resolve().parent.parent
TESTS = {
    "learning/checkpoints.py": ["unit/learning/test_ppo.py", "unit/lab/test_page_records.py"],
    "learning/credit.py": ["unit/learning/test_credit.py"],
    "learning/devices.py": ["devices/test_arithmetic.py", "devices/test_second_device.py"],
    "learning/distributed.py": ["unit/learning/test_gradient_sum.py", "unit/papers/glam/test_distributed.py"],
    "learning/master_weights.py": ["unit/learning/test_gradient_sum.py", "devices/test_precision.py"],
    "learning/options.py": [
        *(f"unit/learning/test_{name}.py" for name in ("credit", "shaping", "token_ppo")),
        "unit/papers/knowledge/test_windows.py",
    ],
    "learning/ppo.py": [f"unit/learning/test_{name}.py" for name in ("ppo", "token_ppo")],
    "learning/replay.py": ["unit/learning/test_replay.py"],
    "learning/returns.py": ["unit/learning/test_returns.py"],
    "learning/shaping.py": ["unit/learning/test_shaping.py"],
    "learning/token_ppo.py": ["unit/learning/test_token_ppo.py"],
    "report/statistics.py": ["unit/report/test_statistics.py"],
    "report/judging.py": ["unit/report/test_claims.py"],
    "worlds/text.py": ["unit/worlds/test_text.py"],
    "worlds/dynamics.py": ["unit/worlds/test_dynamics.py::test_every_action_on_every_thing_is_minigrids"],
    "papers/training.py": ["unit/papers/test_training.py"],
}
AS_PYTHON = ("worlds/dynamics.py",)  # files whose compiled loops are run as Python; bytes of others would overflow
ONE_FILE = "GROUNDLAB_MUTANTS_OF"  # set in the process that tries the mutants of one file
EXAMPLES = 25  # of a property that names no number of its own
SLACK = 5  # times the CPU time of the undisturbed tests that try it, and ten seconds, that a mutant may take


class Mutant(NamedTuple):
    """A changed file, and the first and last line of the function that is changed (0 and 0 where it is none)."""

    code: str
    first: int
    last: int


class _Changes(MutationVisitor):
    """mutmut's mutations, of what is decorated too."""

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Decorator | cst.Raise):
            return True
        bare = node.with_changes(decorators=()) if isinstance(node, cst.FunctionDef | cst.ClassDef) else node
        return super()._skip_node_and_children(bare)


def mutants(code: str, count: int, seed: str) -> tuple[list[Mutant], int]:
    """A sample of the mutants of a file, and how many changes there are: two of them may come to the same code."""
    wrapper, changes = MetadataWrapper(cst.parse_module(code)), _Changes(mutation_operators, set())
    wrapper.visit(changes)
    positions, texts, whole = wrapper.resolve(PositionProvider), set(), []
    for mutation in changes.mutations:
        if isinstance(mutation.original_node, cst.SimpleString):
            if mutation.original_node in texts:
                continue
            texts.add(mutation.original_node)
        whole.append(mutation)
    made = {}
    for mutation in random.Random(seed).sample(whole, len(whole)):
        if len(made) == count:
            break
        changed = wrapper.module.deep_replace(mutation.original_node, mutation.mutated_node).code  # type: ignore[union-attr]
        function = mutation.contained_by_top_level_function
        lines = positions[function] if isinstance(function, cst.FunctionDef) else None
        if changed != code:
            made[changed] = Mutant(changed, lines.start.line, lines.end.line) if lines else Mutant(changed, 0, 0)
    return list(made.values()), len(whole)


class _Lines:
    """A plugin of pytest: which lines of a file each test passes through, the quickest test first."""

    def __init__(self, file: Path):
        self._file, self.seen, self._began = str(file), {}, 0.0

    def pytest_runtest_protocol(self, item, nextitem):
        """Trace one test with its fixtures."""
        lines, self._began = set(), time.process_time()
        self.seen[item.nodeid] = [0.0, lines]

        def line(frame, event, argument):
            lines.add(frame.f_lineno)
            return line

        sys.settrace(lambda frame, event, argument: line if frame.f_code.co_filename == self._file else None)

    def pytest_runtest_logfinish(self, nodeid, location):
        """The test is over."""
        sys.settrace(None)
        self.seen[nodeid][0] = time.process_time() - self._began

    def save(self) -> None:
        """Leave {test: (seconds, lines)}, and what libraries are loaded, for the process that forked this one."""
        quickest = sorted(self.seen.items(), key=lambda item: item[1][0])
        tests = {name: (seconds, sorted(lines)) for name, (seconds, lines) in quickest}
        Path("lines.json").write_text(json.dumps(tests))
        here = str(Path.cwd())
        files = {name: getattr(module, "__file__", None) or here for name, module in sys.modules.copy().items()}
        Path("libraries.json").write_text(json.dumps([name for name, file in files.items() if here not in file]))


def _forked(tests: list[str], seconds: int, *plugins: _Lines) -> int:
    """The exit code of pytest in a fork of this process; negative where a signal ended it."""
    import pytest

    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        code = pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests], plugins=plugins)
        for plugin in plugins:
            plugin.save()
        os._exit(int(code))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextlib.contextmanager
def _copy() -> Iterator[Path]:
    """A tree like this one, with a package that may be written to."""
    with tempfile.TemporaryDirectory(prefix="groundlab-mutants-") as folder:
        for each in ROOT.iterdir():
            if each.name not in ("src", ".nox"):
                (Path(folder) / each.name).symlink_to(each)
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        yield Path(folder)


def try_file(name: str, count: int) -> None:
    """Print the score of a sample of one file's mutants, and those that live."""
    with _copy() as tree:
        os.chdir(tree)
        os.environ["XDG_CACHE_HOME"] = str(tree / "cache")  # of compiled mutants
        sys.path.insert(0, str(tree / "src"))
        import groundlab  # holds the libraries to their instruction set before they load

        assert Path(groundlab.__file__).is_relative_to(tree)
        import hypothesis

        hypothesis.settings.register_profile("mutants", max_examples=EXAMPLES, deadline=None, database=None)
        hypothesis.settings.load_profile("mutants")
        file = tree / "src" / "groundlab" / name
        code, tests = file.read_text(), [f"tests/{each}" for each in TESTS[name]]
        if _forked(tests, 3600, _Lines(file)) != 0:
            raise SystemExit(f"{name}: {' '.join(tests)} fails without any change; mend that first")
        seen = json.loads(Path("lines.json").read_text())
        for library in json.loads(Path("libraries.json").read_text()):
            with contextlib.suppress(Exception):  # plugins of pytest's that load otherwise
                importlib.import_module(library)
        sys.dont_write_bytecode = True
        Path(cache_from_source(str(file))).unlink(missing_ok=True)
        sample, whole = mutants(code, count, seed=name)
        results, began = {"killed": 0, "timed out": 0, "alive": 0}, time.monotonic()
        for mutant in sample:
            through = range(mutant.first + 1, mutant.last + 1)
            passing = [test for test, (_, lines) in seen.items() if any(line in through for line in lines)]
            passing = passing or list(seen)  # none is seen to pass through what is compiled, or outside of functions
            file.write_text(mutant.code)
            end = _forked(passing, int(10 + SLACK * sum(seen[test][0] for test in passing)))
            outcome = "alive" if end == 0 else "timed out" if end in (-signal.SIGXCPU, -signal.SIGKILL) else "killed"
            results[outcome] += 1
            print(outcome[0], end="", flush=True)
            if outcome == "alive":
                _show(name, code, mutant.code, len(passing))
        told = ", ".join(f"{number} {outcome}" for outcome, number in results.items())
        print(f"\n{name}: {told} of {whole} mutants, {time.monotonic() - began:.0f} s", flush=True)


def _show(name: str, code: str, changed: str, tests: int) -> None:
    """Print a mutant as the lines that it changes."""
    print(f"\nalive in {name}, {tests} tests:", flush=True)
    for line in list(difflib.unified_diff(code.splitlines(), changed.splitlines(), n=0, lineterm=""))[2:]:
        print(f"    {line}", flush=True)


def main(words: list[str]) -> None:
    """`[count] [file ...]`: each file in a process of its own, behind whatever else this machine does."""
    count = int(words.pop(0)) if words and words[0].isdigit() else 30
    if os.environ.get(ONE_FILE):
        return try_file(words[0], count)
    for name in words or TESTS:
        loops = {"NUMBA_DISABLE_JIT": "1"} if name in AS_PYTHON else {}
        loops[ONE_FILE] = name
        subprocess.run(
            ["nice", "-n", "15", sys.executable, __file__, str(count), name], env={**os.environ, **loops}, check=True
        )


if __name__ == "__main__":
    main(sys.argv[1:])
