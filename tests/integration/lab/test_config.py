"""What a config file may say, and how a mistake in one is answered."""

import pytest

from groundlab import lab
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import repository_root
from groundlab.lab import config
from groundlab.lab.notebooks import check_parameters
from groundlab.lab.versions import make_version


def test_every_shipped_config_names_pages_that_take_what_reproduce_gives():
    papers = [config.load(paper, scale) for paper in config.known_papers() for scale in config.SCALES]
    pages = {name for paper in papers for name in paper.notebooks}
    assert {"01_language_model.ipynb", "02_mediator.ipynb", "04_glam_generalization.ipynb"} <= pages
    for name in pages:
        check_parameters(repository_root() / "notebooks" / name, {"scale": "smoke", "seeds": None, "folder": "x"})


MISTAKES = {
    "a misspelt key": ({"sedes": 3}, {}, r"configs/mediator/smoke.yaml: .*runs\[0\].*'sedes'; did you mean 'seeds'"),
    "a page of another sort": ({}, {"notebooks": ["page.txt"]}, r"configs/mediator/smoke\.yaml: notebooks"),
    "an unknown method": ({"method": "alwys"}, {}, "did you mean 'always'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_config_is_told_with_its_place_or_with_what_was_meant(mistake, laboratory, rule_entry):
    entry, changes, said = MISTAKES[mistake]
    laboratory.write_config([rule_entry | entry], **changes)
    with pytest.raises(GroundlabError, match=said):
        lab.plan("mediator", scale="smoke")


def test_a_scale_that_a_paper_does_not_have_is_said_so(laboratory):
    with pytest.raises(GroundlabError, match="no runs at scale full"):
        lab.plan("mediator", scale="full")


def test_an_arm_is_named_by_the_plan_of_a_version_and_another_name_makes_no_other_run(laboratory, rule_entry):
    laboratory.write_config([{**rule_entry, "arm": "asks/always/yes", "label": "always"}])
    plan = lab.plan("mediator", scale="smoke")
    (run,) = plan.runs
    lab.execute_run(run.spec, plan.folder_of(run))
    laboratory.write_config([{**rule_entry, "arm": "eager"}])
    renamed = lab.plan("mediator", scale="smoke")
    assert [(run.arm, run.hash, run.status) for run in renamed.runs] == [("eager", plan.runs[0].hash, "finished")]
    version = make_version(renamed, laboratory.root / "v", {}, "reproduce")
    assert [run["arm"] for run in version.runs()] == ["eager"]
