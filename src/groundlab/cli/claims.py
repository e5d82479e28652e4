"""`groundlab claims`: every claim with its published verdicts; of one, what it says and what was measured.

groundlab claims mediator
groundlab claims glam-fig2-npae
"""

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groundlab.cli.printing import listing, print_text, wide_console
from groundlab.core.errors import unknown_name

if TYPE_CHECKING:
    from groundlab.report.claims import Claim


def claims(
    name: Annotated[
        str | None, typer.Argument(metavar="[PAPER|ID]", help="Only this paper's; or this one, and what was measured.")
    ] = None,
) -> None:
    """List the claims with their published verdicts; of one, what it says and what was measured."""
    from groundlab.core.paths import results_folder
    from groundlab.report.claims import KINDS, load_claims
    from groundlab.report.front_page import latest, published
    from groundlab.report.verdicts import Word, count_sentence

    known = {claim.id: claim for claim in load_claims()}
    papers = list(dict.fromkeys(claim.paper for claim in known.values()))
    if name is not None and name not in (*papers, *known):
        raise unknown_name("paper or claim", name, [*papers, *known], "groundlab claims lists all")
    judged = defaultdict[str, dict[str, Any]](dict)  # claim, scale: what claims.json holds
    versions = list(published(results_folder()))
    for version in versions:
        for stored in version.claims:
            if stored["verdict"] != Word.NOT_TESTED:
                judged[stored["id"]][version.scale] = stored
    if name in known:
        return _describe(known[name], judged[name])
    table = listing("claim", "published verdicts", "what it is about", whole=("claim",))
    for claim in known.values():
        if name in (None, claim.paper):
            verdicts = [f"{scale}: {each['verdict']} ({each['because']})" for scale, each in judged[claim.id].items()]
            table.add_row(claim.id, "\n".join(verdicts) or _not_tested(claim), f"{KINDS[claim.kind]}: {claim.locus}")
    wide_console().print(table)
    print_text(count_sentence(each for each in latest(versions) if name in (None, each["paper"])))
    print_text("groundlab claims ID shows one; groundlab reproduce --claim ID makes its runs again and judges it")


def _not_tested(claim: "Claim") -> str:
    return f"not tested (needs {claim.needs})" if claim.needs else "not tested"


def _describe(claim: "Claim", judged: dict[str, Any]) -> None:
    """judged: by scale."""
    from groundlab.report.verdict_changes import claim_lines

    lines = [f"{claim.id} ({claim.paper}), {claim.locus}:", f"  {claim.statement}", f"  rule from: {claim.source}"]
    for scale, each in judged.items():
        lines += [f"at scale {scale}: {each['readable']['verdict']}", *claim_lines(each)]
    if not judged:
        lines.append(f"{_not_tested(claim)}: {claim.not_run or 'no published version holds what it needs'}")
    if claim.not_run is None:
        lines += [f"again: groundlab reproduce --claim {claim.id} --scale {scale}" for scale in judged or claim.scales]
    print_text("\n".join(lines))
