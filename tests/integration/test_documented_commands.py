"""Every command that a config, a claim, the README or docs/ tells people to type is understood, up to its plan."""

import os
import re
import shlex
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest
import typer

from groundlab import cli, lab
from groundlab.cli import options
from groundlab.lab import config
from groundlab.language.chat import connection
from groundlab.papers import protocols, registry
from groundlab.papers.knowledge import labelling
from groundlab.report.claims import load_claims, read_claims
from groundlab.report.exhibits import exhibits

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("commands.md", "artifact.md", "cluster.md", "faq.md"))]
PAGES += sorted((ROOT / "docs" / "papers").glob("*.md"))
PROGRAM = typer.main.get_command(cli.app)
UNDER_NOX = ("reproduce", "smoke", "figures", "review", "bench")  # sessions that are a command of `groundlab`
MENTIONED = {"groundlab run mediator": "groundlab run mediator --world SimpleDoorKey --out out"}
STANDING_FOR = {"my-cluster.yaml": str(ROOT / "configs" / "slurm.yaml"), "$SLURM_ARRAY_TASK_ID": "0"}
LAUNCHED = re.compile(r"^.*(apptainer run .*groundlab\.sif|docker run .* groundlab|--module groundlab) +(?=\w)")


def _joined(text: str) -> str:
    """Commands that go on in the next line, which may be a comment, in one line."""
    return re.sub(r"\\\n[ #]*", " ", text)


def _commands() -> dict[str, str]:
    """Where each command stands, by the command; without a virtual environment's folder."""
    found: dict[str, str] = {}
    for file in sorted(ROOT.glob("configs/*/*.yaml")):
        text, where = _joined(file.read_text()), str(file.relative_to(ROOT))
        comments = re.findall(r"^ *#\s+((?:groundlab|nox) .+)$", text, re.MULTILINE)
        claims = read_claims(file) if file.stem == "claims" else ()
        sample = [claim.redo(scale) for claim in claims[:: len(claims) // 4 or 1] for scale in claim.scales]
        found |= dict.fromkeys([*comments, *filter(None, sample)], where)
    for page in PAGES:
        text, where = _joined(page.read_text()), str(page.relative_to(ROOT))
        blocks, prose = text.split("```")[1::2], "".join(text.split("```")[0::2])
        named = " --" if page.name != "artifact.md" else " "  # every command that the reviewer's page mentions
        spans = [span for span in re.findall(r"`([^`\n]+)`", prose) if named in span and "..." not in span]
        lines = [part.strip() for block in blocks for line in block.splitlines() for part in line.split("&&")]
        found |= dict.fromkeys([*lines, *spans], where)
    names = {_plain(command): where for command, where in found.items()}
    whole = {MENTIONED.get(command, command): where for command, where in names.items()}
    return {command: where for command, where in whole.items() if re.match(r"(groundlab|nox) ", command)}


def _plain(line: str) -> str:
    """The command as one without virtual environment, container or launcher around it."""
    if not LAUNCHED.match(line):
        return line.removeprefix(".venv/bin/")
    plain = re.sub("['\"]", "", LAUNCHED.sub("groundlab ", line).partition(" || ")[0])
    return re.sub(r"^groundlab (?=(nox|jupyter|sh) )", "", plain)  # as requirements/image-entry.sh does


COMMANDS = _commands()


def test_folders_are_made_before_a_container_gets_them_and_a_page_is_opened_run_and_saved_by_one_line():
    page = (ROOT / "docs" / "cluster.md").read_text()
    block = next(each for each in page.split("```")[1::2] if "docker run" in each)
    assert block.strip().startswith("mkdir -p out && chmod a+w out\n") and "--entrypoint" not in page
    assert "nox -s smoke -- --results /results" in COMMANDS and ".venv/bin/jupyter" not in page
    assert (
        re.search("docker run .*out:/results.* jupyter lab /results/notebooks", block)
        and "groundlab.sif jupyter" in block
    )


@pytest.fixture(autouse=True)
def quick_commands(monkeypatch):
    """Plans of configs that are read once, without the hashes of their runs, and no trace in the environment."""
    monkeypatch.setattr(config, "load", cache(config.load))
    monkeypatch.setattr(registry, "worlds_of", cache(registry.worlds_of))
    for name in (connection.ADDRESS, connection.PRICES, connection.BUDGET, "GROUNDLAB_TRACK", "MKL_CBWR"):
        monkeypatch.setitem(os.environ, name, "")


def understood(words: list[str]) -> None:
    """Go as far as a command goes before it opens a file or starts anything. Raises what the command line raises."""
    command, name, rest = PROGRAM, "groundlab", words
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):  # typer brings a click of its own
        name, rest = rest[0], rest[1:]
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    if rest == ["--help"]:
        return
    assert command is not PROGRAM, f"no command stands in {words}"
    context = command.make_context(name, list(rest))
    given = context.params
    if given.get("figure"):
        assert given["figure"] in exhibits()
    if name == "reproduce":
        context.params["dry_run"] = True
        with pytest.raises((typer.Exit, SystemExit)) as end, context:
            command.invoke(context)
        assert getattr(end.value, "exit_code", getattr(end.value, "code", 1)) == 0
    elif name in ("run", "evaluate"):
        settings = options.method_settings(**{key: given[key] for key in signature(options.method_settings).parameters})
        settings |= {"layouts": given["layouts"]} if given.get("layouts") else {}
        if given.get("protocol"):
            protocols.check(given["protocol"], given["method"])
            registry.resolve_settings(given["method"], protocols.KINDS["goto"][0], settings)
        elif name == "run":
            registry.resolve(given["method"], given["world"], given["seed"], settings)
        else:
            registry.check_world(given["method"], given["world"])
            registry.resolve_settings(given["method"], given["world"], settings)
        connection.budget()
    elif name == "label":
        options.connect(given["base_url"], given["prices"], given["budget"])
        overrides = options.parse_settings(given["set_"], error=given["error"])
        wanted = labelling.Labelling(given["form"], given["out"], given["maker"], given["model"], overrides=overrides)
        assert wanted.settings and wanted.chat
        connection.budget()


def _nox_words(words: list[str]) -> list[str] | None:
    """The words of `groundlab` under a session; None where the session is no such command."""
    sessions = re.findall(r"^@session\ndef (\w+)", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    if words[:1] != ["-s"]:
        return None
    assert words[1] in sessions, f"nox has no session {words[1]}"
    if words[1] not in UNDER_NOX:
        return None
    command = ["reproduce", "--scale", "smoke"] if words[1] == "smoke" else [words[1]]
    return [*command, *words[3:]]


@pytest.mark.parametrize("line", sorted(COMMANDS), ids=lambda line: line[:60])
def test_a_documented_command_is_understood(line):
    words = [STANDING_FOR.get(word, word) for word in shlex.split(line, comments=True)]
    program, rest = words[0], words[1:]
    if program == "nox":
        rest = _nox_words(rest)
    if rest is not None:
        try:
            understood(rest)
        except (Exception, SystemExit) as error:
            pytest.fail(f"{COMMANDS[line]}: {line}: {error or type(error)}")


@pytest.mark.parametrize("scale", ["smoke", "quick", "full", "paper"])
def test_the_command_beside_a_claim_runs_what_it_is_judged_by_at_that_scale_and_nothing_else(scale, monkeypatch):
    """Every claim: each side with all of its seeds, by the plan that the command itself makes."""
    plans: list = []
    reproduction = import_module("groundlab.lab.reproduce")
    make = reproduction.plan

    def remembered(*papers, **given):
        plans.append(make(*papers, **given))
        return plans[-1]

    monkeypatch.setattr(reproduction, "plan", remembered)
    whole = lab.plan(scale=scale, wanted=lambda paper, spec: True).runs
    for claim in (each for each in load_claims() if scale in each.scales and each.not_run is None):
        words = shlex.split(claim.redo(scale))
        understood(words[1:])
        assert words[-1] == scale or (scale == "quick" and "--scale" not in words)
        mine = {run.hash for run in plans.pop().runs}
        for side in claim.selectors:
            wanted = {run.hash for run in whole if run.paper == claim.paper and _is_of(side, run)}
            assert wanted and wanted <= mine, (claim.id, str(side))
        needed = {run.hash for run in whole for side in claim.selectors if _is_of(side, run)}
        assert mine <= needed, f"{claim.id} runs what it is not judged by"


def _is_of(side, run) -> bool:
    return side.fits(run.spec.method, run.spec.world, run.spec.settings)


def test_a_command_that_does_not_exist_or_is_wrong_is_noticed():
    for words in (["evalute", "random"], ["evaluate", "randm", "--protocol", "balrog"], ["run", "glam", "--wrld", "x"]):
        with pytest.raises((Exception, SystemExit)):
            understood(words)
