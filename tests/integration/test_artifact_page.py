"""The reviewer's page names only what exists: commands with their options, claims, exhibits, files and experiments."""

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from groundlab import cli, report
from groundlab.lab import config
from groundlab.language.chat import connection
from groundlab.papers import registry
from groundlab.report.claims import load_claims

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "artifact.md").read_text()
OTHERS = "\n".join((ROOT / name).read_text() for name in ("README.md", "docs/commands.md"))
CLAIMS = [claim.id for claim in load_claims()]
BLOCKS = re.findall(r"^```\n(.*?)^```$", f"{PAGE}\n{OTHERS}".replace("\\\n", " "), re.MULTILINE | re.DOTALL)
QUOTED = re.findall(r"`([^`\n]+)`", re.sub(r"^```\n.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL))
LINES = [line.partition("  #")[0].strip() for block in BLOCKS for line in block.splitlines()] + QUOTED
COMMANDS = [part.strip() for line in LINES for part in line.split("&&")]
NOX = [command for command in COMMANDS if re.match(r"(\.venv/bin/)?nox -s", command)]
GROUNDLAB = [command for command in COMMANDS if re.match(r"groundlab \w", command)]
CLI = get_command(cli.app)
assert isinstance(CLI, TyperGroup)


def parse(words: list[str]) -> dict[str, Any]:
    """The command line's own reading of some words; raises its error for an unknown command or option."""
    assert isinstance(CLI, TyperGroup)
    return CLI.commands[words[0]].make_context(words[0], words[1:]).params


@pytest.mark.parametrize("line", GROUNDLAB)
def test_every_command_line_is_understood(line):
    words = line.split()[1:]
    if len(words) == 2 and words[0] == "run":
        words += ["--world", "SimpleDoorKey", "--out", "out"]  # a mention, not a whole line
    given = parse(words)
    for paper in given.get("only", []):
        assert paper in config.known_papers()
    if "method" in given:
        registry.check_world(given["method"], given["world"])


@pytest.mark.parametrize("line", NOX)
def test_every_session_exists_and_passes_on_words_that_are_understood(line):
    session, _, words = line.partition("nox -s ")[2].partition(" -- ")
    assert f"\ndef {session.strip()}(session" in (ROOT / "noxfile.py").read_text()
    if words:
        given = {"only": [], "scale": "quick", **parse([session.strip(), *words.split()])}
        assert set(given["only"]) <= set(config.known_papers())
        assert given["figure"] is None or given["figure"] in report.exhibits()
        assert given["scale"] in config.SCALES
        for paper in given["only"]:
            known = {name for entry in config.load(paper, given["scale"]).runs for name in entry.experiments}
            assert set(given["experiment"]) <= known


def test_there_is_something_to_check():
    assert len(NOX) > 10 and len(GROUNDLAB) > 8


def test_every_claim_that_is_named_is_in_the_claims_and_none_is_forgotten():
    papers = tuple(f"{paper}-" for paper in config.known_papers())
    named = [word for word in QUOTED if word.startswith(papers)]
    assert [pattern for pattern in named if not any(fnmatch(claim, pattern) for claim in CLAIMS)] == []
    assert [claim for claim in CLAIMS if not any(fnmatch(claim, pattern) for pattern in named)] == []


def test_every_file_and_variable_that_is_named_exists():
    files = [word for word in QUOTED if re.fullmatch(r"[\w./-]+\.(yaml|def|cff|lock|toml|md)", word)]
    assert files and [name for name in files if not (ROOT / name).exists()] == []
    variables = {word for word in QUOTED if re.fullmatch(r"(OPENAI|GROUNDLAB_LLM)_\w+", word)}
    assert variables == {connection.KEY, connection.ATTEMPTS, connection.TIMEOUT}
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert targets and [target for target in targets if not (ROOT / "docs" / target).exists()] == []


def test_the_stated_patience_is_that_of_the_code():
    there = connection.Connection("http://host/v1")
    assert f"at most {there.attempts} times" in PAGE and f"at most {there.timeout:.0f} seconds" in PAGE
    assert f"at most {there.longest_wait:.0f} s" in PAGE and there.longest_answer == 2**20 and "1 MiB" in PAGE


def test_the_feature_table_says_the_state_of_every_feature():
    rows = re.findall(r"^\| ([^|]+) \| (done|partly|not) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 24 and len({name for name, _, _ in rows}) == 24
