"""Records under former names of a paper's methods, settings, policies and metrics are read under today's."""

from dataclasses import replace

import made_up
import pytest

from groundlab.core import plugins
from groundlab.report import records

OLD = {"sampled": "played", "interactions": "asks", "epsilon": "noise"}


@pytest.fixture
def renamed(monkeypatch):
    """The mediator's paper after its method `always`, a policy, a metric and a setting were renamed."""
    offered = plugins.load(plugins.PAPERS)
    paper = offered["mediator"]
    methods = tuple(
        replace(each, name="ever", formerly=("always",)) if each.name == "always" else each for each in paper.methods
    )
    new = offered | {"mediator": replace(paper, methods=methods, former_names=OLD)}
    monkeypatch.setattr(plugins, "load", lambda group: new)
    records._todays_names.cache_clear()
    yield
    records._todays_names.cache_clear()


def test_old_records_are_selected_by_todays_names(tmp_path, renamed):
    rows = [{"layout": layout, "success": True, "steps": 3, "return": 0.5, "interactions": 2} for layout in range(3)]
    metrics = [{"iteration": 1, "interactions": 4, "test": {"sampled": {"interactions": 5}}}]
    made_up.store_run(tmp_path, "mediator", "always", "KeyInBox", 0, {"sampled": rows}, metrics, {"epsilon": 0.5})
    found = records.load(tmp_path)
    chosen = records.select(
        found.evaluations, method="ever", world="KeyInBox", policy="played", settings={"noise": 0.5}
    )
    assert chosen["asks"].tolist() == [2, 2, 2]
    assert found.curves["asks"].tolist() == [4]
    assert found.tests[["policy", "asks"]].values.tolist() == [["played", 5]]
