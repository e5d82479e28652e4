"""`groundlab evaluate METHOD --protocol balrog`: an agent on another project's benchmark, by kind of task.

groundlab evaluate random --protocol balrog --layouts 0-49
groundlab evaluate glam --protocol balrog --checkpoint out/glam --json balrog.json
"""

from pathlib import Path
from typing import Any

from groundlab.cli.options import load_agent
from groundlab.cli.printing import print_text
from groundlab.core import storage
from groundlab.core.errors import GroundlabError


def play_protocol(
    protocol: str,
    method: str,
    settings: dict[str, Any],
    layouts: str | None,
    checkpoint: Path | None,
    seed: int | None,
    json_file: Path | None,
) -> None:
    """Play a protocol and print success by kind, one line per policy and kind; `json_file` gets all of it."""
    from groundlab.papers import protocols, registry

    protocols.check(protocol, method)
    if json_file:
        storage.check_file(json_file)
    learns = any(each.learns for _, each in registry.named(method))
    if learns != (checkpoint is not None):
        fix = "give --checkpoint FOLDER of a run" if learns else "leave out --checkpoint"
        raise GroundlabError(f"{method} {'needs a trained agent' if learns else 'has no checkpoint'}; {fix}")
    layouts = settings.get("layouts") if layouts is None else layouts
    trained, settings, seed = load_agent(checkpoint, method, settings, seed)
    outcome = protocols.play(protocol, method, settings, layouts, seed, trained)
    for policy in outcome["policies"]:
        for each in (*policy["kinds"], policy["in_all"]):
            interval = f"{each['success']:.1f} % [{each['low']:.1f}, {each['high']:.1f}]"
            played = f"{each['episodes']} episodes, {each['steps']:.1f} steps"
            print_text(f"{protocol}, {method} ({policy['policy']}), {each['kind']}: {interval}, {played}")
    for reason in outcome["left_out"].values():
        print_text(f"not played: {reason}")
    if json_file:
        storage.write_json(json_file, outcome)
        print_text(f"wrote {json_file}")
