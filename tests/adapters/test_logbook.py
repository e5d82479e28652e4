"""The claims of a paper as a Trackio logbook, read by trackio itself. Run by `nox -s adapters`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LABORATORY = ROOT / ".nox" / "groundlab" / "bin" / "groundlab"


def trackio(folder: Path, *words: str) -> str:
    """What `trackio logbook` prints in a folder."""
    command = [Path(sys.executable).with_name("trackio"), "logbook", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def logbook(tmp_path_factory) -> Path:
    """The logbook of a paper, written by the laboratory's own environment: trackio's has no pandas of ours."""
    pytest.importorskip("trackio.logbook", reason="nox -s adapters has it")
    if not LABORATORY.is_file():
        pytest.skip("the laboratory is not installed; nox -s tests does it")
    out = tmp_path_factory.mktemp("logbooks")
    subprocess.run([LABORATORY, "export", "logbook", out, "--only", "knowledge"], check=True)
    trackio(out / "knowledge", "sync")
    return out / "knowledge"


def test_trackio_reads_a_page_for_each_claim_with_its_command_result_and_figure(logbook):
    version = json.loads((ROOT / "results" / "reference.json").read_text())["knowledge"]["full"]
    stored = json.loads((ROOT / "results" / version / "claims.json").read_text())
    claims = {claim["id"]: claim for claim in stored if claim["paper"] == "knowledge"}
    pages = {page["slug"]: page for page in json.loads(trackio(logbook, "read", "--json"))["pages"]}
    assert pages.keys() - {"index"} == claims.keys()
    for name, claim in claims.items():
        kinds = [cell["type"] for cell in pages[name]["cells"]]
        judged = claim["verdict"] != "not run at this scale"
        assert kinds[0] == "markdown" and {"code", "figure"} <= set(kinds) if judged else "markdown" in kinds
    first = next(claim for claim in claims.values() if claim["verdict"] == "ordering holds")
    cell = next(cell for cell in pages[first["id"]]["cells"] if cell["type"] == "code")
    whole = trackio(logbook, "read", "cell", cell["id"], "--full")
    assert f"groundlab reproduce --claim {first['id']} --scale full" in whole
    assert first["readable"]["here"].split("; ")[0] in whole


def test_trackio_makes_its_page_of_it(logbook):
    made = json.loads((logbook / ".trackio" / "logbook" / "logbook.json").read_text())
    assert "background knowledge" in made["title"].lower()
    assert (logbook / ".trackio" / "logbook" / "index.html").is_file()
