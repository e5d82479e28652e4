"""A command in poor surroundings, with odd options or beside a broken package: one line that names the fix."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from groundlab.cli import options, printing
from groundlab.core.errors import GroundlabError, way_out
from groundlab.core.schema import parse
from groundlab.lab import machine, run_folder
from groundlab.lab.config import Entry, Experiment

HEAD = "from groundlab.papers.method import Paper, Method\nfrom groundlab.worlds.registry import World, Rules\n"
HEAD += "from groundlab.worlds.family import GridFamily\n"


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


BROKEN = {
    "a number as a paper": ("THING = 3", "papers", "methods", "is int, no groundlab.papers.method.Paper"),
    "no tuple of methods": ("THING = Paper('p', 't', 'q', 7)", "papers", "methods", "has methods that are no tuple"),
    "sys.exit while it loads": ("import sys; sys.exit(0)", "worlds", "worlds", "raises SystemExit"),
    "a BaseException": ("raise type('X', (BaseException,), {})('a')", "worlds", "worlds", "raises X (a)"),
    "a world without a level": (
        "THING = (World('Tiny-v0', (), 'm', 's'),)", "worlds", "worlds", "has a world 'Tiny-v0' without a level",
    ),
    "a world of no size": (
        "THING = (World('Tiny-v0', (Rules(room_size=-3),), 'm', 's'),)", "worlds",
        "evaluate random --world Tiny-v0 --layouts 0-1", "has a world 'Tiny-v0' of -3 x -3 cells",
    ),
    "a family with a number as a row": (
        "class F(GridFamily):\n    name = 'odd'\n    worlds = {'a': 3}\nTHING = F()", "worlds", "worlds",
        "has a row 3 without name",
    ),
    "a family that raises": (
        "class F(GridFamily):\n    name = 'odd'\n    @property\n    def worlds(self): 1 / 0\nTHING = F()",
        "worlds", "worlds", "raises ZeroDivisionError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_package_is_named_in_one_line(case, tmp_path):
    source, group, words, problem = BROKEN[case]
    code, out, error = command(*words.split(), site=install(tmp_path, source, group))
    assert (code, error.count("\n")) == (2, 1), out + error
    assert "plug-package offers 'thing' (plug:THING)" in error and problem in error
    assert "mend that package, or uninstall it" in error


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


def test_a_cache_that_cannot_be_written_costs_time_and_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    code, out, error = command("worlds", XDG_CACHE_HOME=str(tmp_path / "file"), NUMBA_CACHE_DIR="")
    assert code == 0 and "BabyAI-GoToLocal-v0" in out
    assert error.count("\n") == 1 and "NUMBA_CACHE_DIR=FOLDER names a place" in error


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
    with pytest.raises(typer.BadParameter, match="is a shell variable not set"):
        options._named_folder("")
    assert command("review", "--results", "")[0] == 2


ENTRY = {"method": "always", "worlds": ["SimpleDoorKey"], "estimate": {"seconds": 1, "megabytes": 1}}


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": True},
        {"seeds": 1.0},
        {"seeds": "1"},
        {"worlds": ["A", "A"]},
        {"estimate": {"seconds": "1e3", "megabytes": 1}},
    ],
    ids=str,
)
def test_a_config_that_means_something_else_is_refused(change):
    parse(Entry, ENTRY, "here")
    with pytest.raises(GroundlabError, match=r"^here: "):
        parse(Entry, ENTRY | change, "here")


@pytest.mark.parametrize("name", ["a\0b.ipynb", "../../etc/passwd", "../a.ipynb"])
def test_a_notebook_is_a_file_of_its_folder(name):
    whole = {"paper": "p", "scale": "quick", "notebooks": ["02_mediator.ipynb"], "runs": []}
    parse(Experiment, whole, "here")
    with pytest.raises(GroundlabError, match="notebooks"):
        parse(Experiment, whole | {"notebooks": [name]}, "here")


def test_a_limit_of_the_machine_is_told_with_what_raises_it():
    assert way_out(OSError(24, "Too many open files")) == "raise the limit of open files (ulimit -n)"
    assert way_out(FileNotFoundError(2, "No such file", "/dev/null")).startswith("make /dev/null")
    assert way_out(ValueError("x")) == way_out(FileNotFoundError(2, "No", "/a")) == ""


def test_a_lock_that_is_a_loop_of_links_is_named(tmp_path):
    (tmp_path / ".lock").symlink_to(".lock")
    with pytest.raises(GroundlabError, match="a link points to itself"), run_folder.hold(tmp_path):
        pass


def test_times_are_of_a_clock_that_nobody_sets(monkeypatch):
    usage = machine.Usage()
    monkeypatch.setattr(time, "time", lambda: -30000.0)
    assert 0 <= usage.so_far()["wall_seconds"] < 1000
