"""Tables and figures: what they hold, that equal data gives equal bytes, and that nothing empty is drawn."""

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import made_up
import pandas as pd
import pytest
from matplotlib import rc_context

from groundlab.core.errors import GroundlabError
from groundlab.core.versions import Version
from groundlab.papers.mediator import arms
from groundlab.papers.mediator.arms import all_selectors
from groundlab.papers.mediator.exhibits import table1
from groundlab.papers.mediator.settings import Fidelity
from groundlab.report import style
from groundlab.report.claims import load_claims
from groundlab.report.exhibits import draw, draw_all, exhibits, show
from groundlab.report.records import load

MEDIATOR = [id for id, exhibit in exhibits().items() if exhibit.paper == "mediator"]


@pytest.mark.integration
def test_the_same_data_gives_the_same_bytes_in_another_process(results, tmp_path):
    coarse = f"style.DPI = {style.DPI}; style._RC.update({style._RC!r})"  # as conftest draws here
    code = f"import sys; from groundlab.report import draw_all, style; {coarse}; draw_all(sys.argv[1])"
    copy = shutil.copytree(results, tmp_path / "again" / results.name)
    draw_all(results)
    subprocess.run([sys.executable, "-c", code, str(copy)], check=True)
    kinds = ("png", "pdf", "csv", "md")
    files = [file for kind in kinds for file in results.glob(f"mediator/*/*.{kind}")]
    assert len(files) == 2 * (len(MEDIATOR) - 1)  # no model planned
    for file in files:
        twin = copy / file.relative_to(results)
        assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(twin.read_bytes()).digest(), file.name


def test_what_a_user_has_set_for_figures_changes_none_of_ours(tmp_path):
    def drawn(folder):
        with style.house_style():
            figure, axes = style.new_figure(3, 2)
            axes[0, 0].plot([1, 3, 2], label="line")
            style.legend_below(figure, [axes[0, 0]])
        return [path.read_bytes() for path in style.save(figure, folder, "drawn")]

    ours = drawn(tmp_path / "ours")
    theirs = {"savefig.bbox": "tight", "axes.labelsize": 20, "xtick.minor.visible": True, "lines.marker": "o"}
    with rc_context({**theirs, "axes.xmargin": 0.4, "text.color": "red", "legend.loc": "best"}):
        assert drawn(tmp_path / "theirs") == ours


def test_what_a_version_holds_is_shown_and_what_it_does_not_hold_is_nothing(results):
    assert show("mediator-table1", results) is None
    drawn = draw("mediator-table1", results)
    assert show("mediator-table1", results) == drawn and drawn._repr_mimebundle_()["text/markdown"].startswith("| ")


def test_an_exhibit_whose_code_fails_is_one_line_with_its_place(results, monkeypatch):
    table = exhibits()["mediator-table1"]
    broken = replace(table, draw=lambda records: {}["no such world"])
    monkeypatch.setitem(exhibits(), table.id, broken)
    with pytest.raises(GroundlabError, match=r"figure mediator-table1, got KeyError: .*test_exhibits.py, line"):
        draw(table.id, results)


def test_a_table_holds_nothing_of_another_paper_whatever_runs_stand_beside(results):
    alone = draw("mediator-table1", results).path("csv").read_bytes()
    version = Version(results)
    version.add(
        ({**run, "paper": "glam"}, {name: version.read(run, name) for name in run["records"]}) for run in version.runs()
    )
    assert load(results).papers == ["glam", "mediator"]
    assert draw("mediator-table1", results).path("csv").read_bytes() == alone


def test_table_1_holds_full_precision_in_csv_and_the_published_value_beside_ours(results):
    drawn = draw("mediator-table1", results)
    data = pd.read_csv(drawn.path("csv"))
    data = data[data["layouts_of"].isna()]
    ours = data[(data["method"] == "mediator") & (data["policy"] == "sampled") & (data["metric"] == "interactions")]
    rows = load(results).evaluations.query("method == 'mediator' and policy == 'sampled'")
    stored = rows.groupby("world")["interactions"].mean()
    assert dict(zip(ours["world"], ours["mean"], strict=True)) == pytest.approx(stored.to_dict(), abs=1e-12)
    line = next(
        line for line in drawn.path("md").read_text().splitlines() if line.startswith("| SimpleDoorKey | always")
    )
    assert "30.00 [30.00, 30.00] | 25.78 ✗" in line and "100 % [96.3, 100] | 100 % ✓" in line


def test_every_claim_of_table_1_has_its_row(stored):
    records = load(stored)
    rows = {
        str(each)
        for world in ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey")
        for each in all_selectors(records, world)
    }
    claims = [each for each in load_claims() if each.locus.startswith("Table 1,") and each.not_run is None]
    assert claims and {str(each.select) for each in claims} <= rows


def test_the_usual_settings_that_exhibits_name_are_the_defaults():
    assert Fidelity().model_dump(mode="json") == arms.QUIRKS


def test_an_agent_that_no_figure_knows_has_a_row_a_line_and_a_point_of_its_own(results):
    version = Version(results)
    always = next(run for run in version.runs() if (run["method"], run["world"]) == ("always", "SimpleDoorKey"))
    rows = [
        row | {"success": row["layout"] % 4 > 0}
        for row in json.loads(version.read(always, "evaluation.json"))[0]["rows"]
    ]
    named = {"settings": {**always["settings"], "epsilon": 0.2}, "arm": "wise", "arm_label": "asks wisely"}
    made_up.store_run(results, "mediator", "always", "SimpleDoorKey", 0, {"rule": rows}, **named)
    records = load(results)
    (line,) = [each for each in table1(records).readable.to_dict("records") if each["method"] == "asks wisely"]
    assert line["success"].startswith("75 %") and line["world"] == "SimpleDoorKey"
