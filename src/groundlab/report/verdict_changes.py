"""Which verdicts of two results differ, by the claims.json of both."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from groundlab.core.versions import find_published
from groundlab.report.verdicts import Stored, Word, read_stored


def published_claims(folder: Path, papers: Iterable[str], scale: str) -> list[Stored]:
    """What claims.json of the published versions of these papers at a scale holds of them, but for `folder` itself."""
    found = []
    for paper in papers:
        reference = find_published(paper, scale, folder.parent)
        if reference and reference != folder and (reference / "claims.json").is_file():
            found += read_stored(reference).of_paper(paper)
    return found


def changed_verdicts(fresh: Iterable[Stored], there: Iterable[Stored]) -> list[tuple[Stored, Stored]]:
    """The claims with another verdict, here and there, of those that both sides judged."""
    return [(one, other) for one, other in _judged_on_both(fresh, there) if one["verdict"] != other["verdict"]]


def _judged_on_both(fresh: Iterable[Stored], there: Iterable[Stored]) -> list[tuple[Stored, Stored]]:
    others = {claim["id"]: claim for claim in there if claim["verdict"] != Word.NOT_TESTED}
    return [(each, others[each["id"]]) for each in fresh if each["verdict"] != Word.NOT_TESTED and each["id"] in others]


def verdict_lines(fresh: Sequence[Stored], there: Sequence[Stored]) -> list[str]:
    """What to print of two contents of claims.json: the count, then each claim with another verdict."""
    changes, judged = changed_verdicts(fresh, there), len(_judged_on_both(fresh, there))
    if not changes:
        return [f"all {judged} verdicts are the same"] if judged else []
    lines = [f"  {one['id']}: {_outcome(one)}, there {_outcome(other)}" for one, other in changes]
    return [f"{len(changes)} of {judged} verdicts differ:", *lines]


def _outcome(claim: Stored) -> str:
    return f"{claim['verdict']} ({claim['readable']['here']})"


def story(claim: Stored, published: Stored | None) -> list[str]:
    """A claim with its verdict in lines: what it says, what was measured here, and what is published of it."""
    row = claim["readable"]
    found = [f"{claim['id']}: {row['verdict']}", f"  {row['claim']}: {claim['statement']}"]
    there = f"{published['readable']['verdict']}, {published['readable']['here']}" if published else "nothing"
    return [*found, *claim_lines(claim), f"  published at this scale: {there}"]


def claim_lines(claim: Stored) -> list[str]:
    """What claims.json holds of a claim, in lines: the paper's numbers, ours, the rule, and of a miss why."""
    row = claim["readable"]
    seeds = f"{row['seeds']} seed{'s' * (row['seeds'] != '1')}"
    lines = [f"  paper: {row['paper']}", f"  here: {row['here']}, {seeds}", f"  rule: {claim['reason']}"]
    return lines + [f"  why: {claim['why']}"] * (claim["verdict"] == Word.CONTRADICTED and bool(claim["why"]))
