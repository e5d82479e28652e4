"""Each claim is judged by what its scales plan: one run a seed, which records the policy and the metrics it names.

The plans are the real ones of all papers. A claim that names a scale where nothing is planned for it fails here, and so
does one whose words fit two runs of a seed: it could not be judged after weeks of training.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import made_up
import pytest

from groundlab import lab
from groundlab.lab import config
from groundlab.lab.plan import PlannedRun
from groundlab.report.claims import Claim, Selector, load_claims


@cache
def planned(scale: str) -> tuple[PlannedRun, ...]:
    """The runs of all papers at a scale, also those that stand alone; the store is a folder that holds none."""
    return lab.plan(scale=scale, results=Path("no-such-results"), wanted=lambda paper, spec: True).runs


def claims_at(scale: str) -> list[Claim]:
    return [claim for claim in load_claims() if scale in claim.scales and claim.not_run is None]


def matching(claim: Claim, selector: Selector, scale: str) -> list[PlannedRun]:
    """The runs whose rows a selector names, as `records.select` finds them."""
    return [
        run
        for run in planned(scale)
        if run.paper == claim.paper and selector.fits(run.spec.method, run.spec.world, run.spec.settings)
    ]


def metrics_by_selector(claim: Claim) -> Iterator[tuple[Selector, set[str]]]:
    if claim.select:
        yield claim.select, {*claim.expected, *claim.range, *claim.within} or {"success"}
    for each in claim.compare:
        yield from ((side, {each.metric}) for side in (each.of, each.than))


def recorded(selector: Selector, run: PlannedRun) -> set[str]:
    """The metrics that a run writes where a selector looks for them; empty where it writes nothing there."""
    evaluations, metrics = made_up.records_of(run.spec.model_dump())
    if selector.when == "end":
        rows = [row for each in evaluations if each["policy"] == selector.policy for row in each["rows"]]
    elif selector.when == "worst test":
        rows = [test[selector.policy] for each in metrics for test in [each.get("test", {})] if selector.policy in test]
    else:
        rows = metrics
    return set().union(*rows)


@pytest.mark.parametrize("scale", config.SCALES)
def test_a_claim_selects_exactly_one_run_for_every_seed_that_is_planned(scale):
    seeds = {
        (claim.id, str(selector)): sorted(run.spec.seed for run in matching(claim, selector, scale))
        for claim in claims_at(scale)
        for selector in claim.selectors
    }
    assert {
        name: found
        for name, found in seeds.items()
        if not found or found != list(range(found[0], found[0] + len(found)))
    } == {}


@pytest.mark.parametrize("scale", config.SCALES)
def test_the_runs_of_a_claim_record_the_policy_and_the_metrics_that_it_names(scale):
    missing = [
        (claim.id, str(selector), wanted - written)
        for claim in claims_at(scale)
        for selector, wanted in metrics_by_selector(claim)
        for written in (recorded(selector, run) for run in matching(claim, selector, scale)[:1])
        if not wanted <= written
    ]
    assert missing == []


def test_a_claim_names_a_scale_once_and_a_primary_stands_wherever_its_family_does():
    every = [claim for claim in load_claims() if claim.not_run is None]
    assert all(claim.scales and len(set(claim.scales)) == len(claim.scales) for claim in every)
    primaries = {claim.family: set(claim.scales) for claim in every if claim.primary}
    assert [claim.id for claim in every if claim.family and not set(claim.scales) <= primaries[claim.family]] == []
