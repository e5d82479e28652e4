"""Runs of smoke, made again here, have the bytes that they have on each known kind of CPU that rounds alike."""

from dataclasses import replace

import pytest

from groundlab import lab
from groundlab.lab import executor, fingerprint

_SMALL = ("mediator-ColoredDoorKey-s0", "npe-BabyAI-GoToLocalS8N4-v0-s0", "rnd-BabyAI-Text-GoToLocal-RedBall-S10-s0")
"""Compiled loops, a language model under a head of its own, and a network of words with a bonus: seconds in all."""


@pytest.fixture(scope="module")
def trained_here(tmp_path_factory) -> dict[str, dict[str, str]]:
    methods = [label.split("-")[0] for label in _SMALL]
    whole = lab.plan(scale="smoke", methods=methods, results=tmp_path_factory.mktemp("results"))
    plan = replace(whole, runs=tuple(run for run in whole.runs if run.label in _SMALL))
    outcome = executor.run(plan, workers=1)
    assert not outcome.failed and not outcome.unfinished
    return fingerprint.runs_of(lab.plan(scale="smoke", methods=methods, results=plan.results).finished())


@pytest.mark.parametrize("kind", fingerprint.known())
def test_small_runs_have_the_bytes_of_a_known_kind_of_cpu_that_rounds_alike(kind, request):
    records, here = fingerprint.known(), fingerprint.operations()
    record = records[kind]
    if record["packages"] != fingerprint.packages():
        pytest.skip(f"{kind} is known with other versions of torch or numpy")
    if fingerprint.rounding() not in [each.get("rounding") for each in records.values()]:
        pytest.skip("no known kind of CPU rounds in all operations as this machine does (groundlab fingerprint)")
    if apart := [name for name, digest in record["operations"].items() if here[name] != digest]:
        pytest.skip(f"this machine does not round as {kind} does: {', '.join(apart)}")
    runs = request.getfixturevalue("trained_here")
    assert len(runs) == len(_SMALL) and all(len(files) > len(("metrics", "evaluation")) for files in runs.values())
    assert runs == {name: record["runs"][name] for name in runs}
