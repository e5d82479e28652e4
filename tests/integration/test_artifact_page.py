"""The reviewer's page names claims, files and variables that exist; its commands: test_documented_commands.py."""

import re
from fnmatch import fnmatch
from pathlib import Path

from groundlab.lab import config
from groundlab.language.chat import connection
from groundlab.report.claims import load_claims

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "artifact.md").read_text()
CLAIMS = [claim.id for claim in load_claims()]
QUOTED = re.findall(r"`([^`\n]+)`", re.sub(r"^```\n.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL))


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


def test_the_stated_patience_is_that_of_the_code():
    there = connection.Connection("http://host/v1")
    assert f"at most {there.attempts} times" in PAGE and f"at most {there.timeout:.0f} seconds" in PAGE
    assert f"at most {there.longest_wait:.0f} s" in PAGE and there.longest_answer == 2**20 and "1 MiB" in PAGE


def test_the_feature_table_says_the_state_of_every_feature():
    rows = re.findall(r"^\| ([^|]+) \| (done|partly|not) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 24 and len({name for name, _, _ in rows}) == 24
