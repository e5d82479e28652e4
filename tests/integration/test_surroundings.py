"""A command in poor surroundings, or with odd options: one line that names the fix."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from groundlab.cli import options, printing
from groundlab.core.errors import GroundlabError

ROOT = Path(__file__).resolve().parents[2]
HEAD = "from groundlab.worlds.registry import World, Rules\n"


def command(*arguments, site="", timeout=500, **environment):
    """(exit code, stdout, stderr) of a process of its own."""
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    given = {**os.environ, "PYTHONPATH": path, **environment}
    words = [sys.executable, "-m", "groundlab", *map(str, arguments)]
    ended = subprocess.run(words, env=given, capture_output=True, text=True, timeout=timeout)
    return ended.returncode, ended.stdout, ended.stderr


def install(site: Path, source: str, group: str) -> Path:
    """A package `plug` whose entry point `thing` is `plug:THING`."""
    (site / "plug.py").write_text(HEAD + source)
    about = site / "plug-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[groundlab.{group}]\nthing = plug:THING\n")
    return site


def test_codes_that_command_a_terminal_are_shown_and_not_sent(tmp_path, capsys):
    site = install(tmp_path, "THING = (World('Tiny-v0', (Rules(),), '[red]x\\x1b[2J\\u202e', 's'),)", "worlds")
    code, out, _ = command("worlds", site=site, COLUMNS="200")
    assert code == 0 and "\x1b" not in out and "\u202e" not in out
    printing.print_text("a server's \x1b[2J\u202e reply\n\tof two lines")
    assert capsys.readouterr().out == "a server's \\x1b[2J\\u202e reply\n        of two lines\n"


def test_a_terminal_that_knows_ascii_only_gets_every_line(tmp_path):
    words = ("reproduce", "--scale", "smoke", "--dry-run", "--verbose", "--results", tmp_path)
    code, out, error = command(*words, PYTHONIOENCODING="ascii")
    assert code == 0 and "\\u2026" in out and error == ""


def test_only_a_command_that_compiles_needs_a_place_for_what_is_compiled(tmp_path):
    (tmp_path / "file").write_text("")
    code, out, error = command("worlds", XDG_CACHE_HOME=str(tmp_path / "file"), NUMBA_CACHE_DIR="")
    assert code == 0 and "BabyAI-GoToLocal-v0" in out and not error


@pytest.mark.parametrize(
    ("words", "variable", "problem"),
    [
        ("always --world SimpleDoorKey", "NUMBA_DISABLE_JIT", "expected numba to compile"),
        ("bot --world BabyAI-GoToLocal-v0 --layouts 0", "PYTHONOPTIMIZE", "expected minigrid's bot"),
    ],
)
def test_a_python_in_which_a_method_would_go_wrong_is_refused(words, variable, problem):
    code, _, error = command("evaluate", *words.split(), **{variable: "1"})
    assert code == 2 and error.splitlines()[-1].startswith(f"groundlab: {problem}") and "Error" not in error


def test_where_no_home_can_be_written_matplotlib_adds_no_lines(tmp_path):
    places = {"HOME": "/proc/nowhere", "MPLCONFIGDIR": "", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": str(tmp_path)}
    code, _, error = command("figures", "--figure", "nothing", **places)
    assert code == 2 and error.count("\n") == 1 and "unknown table or figure 'nothing'" in error


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((["layouts=0-0", "layouts=0-1"], {}), "layouts is given twice"),
        ((["layouts=7"], {"layouts": "0-1"}), "layouts is given twice"),
        ((["chat.model=x", "chat={}"], {}), "chat is given twice"),
    ],
)
def test_a_setting_that_is_given_twice_is_no_choice_of_ours(given, problem):
    with pytest.raises(GroundlabError, match=problem):
        options.parse_settings(given[0], **given[1])


def test_an_empty_results_folder_is_an_unset_variable_and_not_the_default():
    code, _, error = command("review", "--results", "", COLUMNS="200")
    assert code == 2 and "is a shell variable not set" in error


@pytest.mark.skipif(not shutil.which("git") or not (ROOT / ".git").exists(), reason="needs git and a clone")
def test_a_clone_that_asks_for_other_ends_of_lines_has_the_same_bytes(tmp_path):
    def git(*words):
        return subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True, text=True).stdout

    git("clone", "-qns", "-c", "core.autocrlf=true", ROOT, ".")
    git("checkout", "HEAD", "--", ".gitattributes", "configs", "examples", "figures", "src", "tests/golden")
    ends = [line.split()[:2] for line in git("ls-files", "--eol").splitlines()]  # stored, and here
    assert len(ends) > 200 and not [line for line in ends if line[0][1:] != line[1][1:]]
