"""The run loop: what is called in which order, what is stored, and what a stop leaves for the same command to go on."""

import json

import pytest
from runs import evaluations, records

from groundlab.core.run import Run, RunSpec, Unfinished
from groundlab.papers.training import Learner, evaluate_once, fit, train

SPEC = RunSpec(method="always", world="SimpleDoorKey", seed=4, settings={"layouts": "0-1"})
EVALUATIONS = [{"policy": "rule", "mean": {"success": 0.5, "steps": 3.0}, "rows": [{"layout": 0, "success": True}]}]


class Adder(Learner):
    """Adds up its steps, and writes down what is called."""

    updates, shown = 4, ("value", "success")

    def __init__(self):
        self.value, self.calls = 0, []

    def train_step(self, number):
        self.calls.append(f"step {number}")
        self.value += number
        return {"value": self.value, "hidden": -1}

    def state(self):
        return {"value": str(self.value).encode()}

    def load_state(self, files):
        self.calls.append("load")
        self.value = int(files["value"])

    load_weights = load_state

    def evaluate(self):
        self.calls.append("evaluate")
        return EVALUATIONS

    def begin(self, run):
        assert not (run.folder / "metrics.jsonl").exists()
        self.calls.append("begin")

    def logged(self, run, number, record):
        stored = (run.folder / "metrics.jsonl").read_text().splitlines()
        assert json.loads(stored[-1]) == record, "the record is written before"
        self.calls.append(f"logged {number}")

    def finish(self, run):
        assert (run.folder / "evaluation.json").is_file()
        self.calls.append("finish")

    def close(self):
        self.calls.append("close")


def a_run(folder, **options) -> tuple[Run, list]:
    shown = []
    return Run(folder, SPEC, report=lambda progress: shown.append(progress), **options), shown


STEPS = [word for number in range(1, 5) for word in (f"step {number}", f"logged {number}")]


def test_a_training_begins_steps_evaluates_finishes_and_closes(tmp_path):
    learner, (run, shown) = Adder(), a_run(tmp_path)
    train(run, learner)
    assert learner.calls == ["begin", *STEPS, "evaluate", "finish", "close"]
    assert [record["iteration"] for record in records(tmp_path)] == [1, 2, 3, 4]
    assert [record["value"] for record in records(tmp_path)] == [1, 3, 6, 10]
    assert evaluations(tmp_path) == EVALUATIONS
    assert [(each.step, each.total, each.figures) for each in shown] == [
        (number, 4, {"value": value}) for number, value in enumerate((1, 3, 6, 10), start=1)
    ]


def test_a_stopped_training_goes_on_after_its_checkpoint_and_does_not_begin_again(tmp_path):
    first = Adder()
    with pytest.raises(Unfinished, match="stopped at iteration 2 of 4; the same command continues"):
        train(a_run(tmp_path, stop=lambda: len(first.calls) >= 5)[0], first)
    assert first.calls == ["begin", *STEPS[:4], "close"]
    second = Adder()
    train(a_run(tmp_path)[0], second)
    assert second.calls == ["load", *STEPS[4:], "evaluate", "finish", "close"]
    train(a_run(whole := tmp_path / "whole")[0], Adder())
    assert records(tmp_path) == records(whole)


def test_a_fit_evaluates_nothing(tmp_path):
    learner = Adder()
    fit(a_run(tmp_path)[0], learner)
    assert learner.calls == ["begin", *STEPS] and not (tmp_path / "evaluation.json").exists()


def test_a_stop_before_the_evaluation_ends_the_run_and_closes_the_learner(tmp_path):
    learner = Adder()
    with pytest.raises(Unfinished, match="before its evaluation"):
        train(a_run(tmp_path, stop=lambda: "step 4" in learner.calls)[0], learner)
    assert learner.calls == ["begin", *STEPS, "close"]


def test_a_rule_is_evaluated_by_its_spec_in_one_step(tmp_path):
    asked, (run, shown) = [], a_run(tmp_path)
    evaluate_once(run, lambda request: asked.append(request) or EVALUATIONS)
    (request,) = asked
    assert RunSpec(method=request.method, world=request.world, seed=request.seed, settings=request.settings) == SPEC
    assert records(tmp_path) == [{"iteration": 1, "success": 0.5, "steps": 3.0}]
    assert [(each.step, each.total, each.figures) for each in shown] == [(1, 1, {"success": 0.5})]
    assert evaluations(tmp_path) == EVALUATIONS
    evaluate_once(a_run(tmp_path)[0], lambda request: EVALUATIONS)
    assert len(records(tmp_path)) == 1, "a kill after its only step leaves no second record"


def test_a_rule_that_is_stopped_asks_nothing(tmp_path):
    with pytest.raises(Unfinished):
        evaluate_once(a_run(tmp_path, stop=lambda: True)[0], lambda request: 1 / 0)
