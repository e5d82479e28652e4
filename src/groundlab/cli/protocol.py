"""`groundlab evaluate METHOD --protocol balrog`: an agent on another project's benchmark, by kind of task.

groundlab evaluate random --protocol balrog --layouts 0-49
groundlab evaluate chat --protocol babybench-plan --world BabyAI-GoToLocal-v0 --record out/plans
groundlab evaluate glam --protocol balrog --checkpoint out/glam --json balrog.json
"""

from pathlib import Path
from typing import Any

from groundlab.cli.options import load_agent
from groundlab.cli.printing import print_text
from groundlab.core import storage
from groundlab.core.errors import GroundlabError

_QUESTIONS = "babybench"  # protocols that ask instead of play: on a world of one's own, and recorded


def play_protocol(
    protocol: str,
    method: str,
    settings: dict[str, Any],
    layouts: str | None,
    checkpoint: Path | None,
    seed: int | None,
    json_file: Path | None,
    world: str | None,
    record: Path | None,
    show: bool,
) -> None:
    """Play a protocol and print success by kind, one line a policy and kind; `json_file` gets all of it.

    world, record: of protocols that ask questions; show: refused, because none shows a dialogue.
    """
    from groundlab.papers import protocols, registry

    asks = protocol.startswith(_QUESTIONS)
    if world is not None and not asks:
        raise GroundlabError(f"--protocol {protocol} has worlds of its own; leave out --world")
    if asks and show:
        raise GroundlabError(f"--protocol {protocol} shows no dialogue; give --record FOLDER, which keeps it")
    if not asks and (show or record):
        raise GroundlabError(f"--protocol {protocol} shows no dialogue; leave out --show and --record")
    protocols.check(protocol, method)
    if json_file:
        storage.check_file(json_file)
    learns = any(each.learns for _, each in registry.named(method))
    if learns != (checkpoint is not None):
        fix = "give --checkpoint FOLDER of a run" if learns else "leave out --checkpoint"
        raise GroundlabError(f"{method} {'needs a trained agent' if learns else 'has no checkpoint'}; {fix}")
    layouts = settings.get("layouts") if layouts is None else layouts
    trained, settings, seed = load_agent(checkpoint, method, settings, seed)
    outcome = protocols.play(protocol, method, settings, layouts, seed, trained, world, record)
    for policy in outcome["policies"]:
        for each in (*policy["kinds"], policy["in_all"]):
            interval = f"{each['success']:.1f} % [{each['low']:.1f}, {each['high']:.1f}]"
            line = f"{protocol}, {method} ({policy['policy']}), {each['kind']}: {interval}, {_played(each)}"
            print_text(line)
    for reason in outcome["left_out"].values():
        print_text(f"not played: {reason}")
    if json_file:
        storage.write_json(json_file, outcome)
        print_text(f"wrote {json_file}")
    if record:
        print_text(f"recorded {record}")


def _played(kind: dict[str, Any]) -> str:
    """What a line says besides success: episodes and steps, or questions and what was measured of the answers."""
    if "steps" in kind:
        return f"{kind['episodes']} episodes, {kind['steps']:.1f} steps"
    parts = [f"{kind['episodes']} questions"]
    for name, found in kind.items():
        if isinstance(found, dict) and found.get("value") is not None:
            ends = "" if found["low"] is None else f" [{found['low']:.2f}, {found['high']:.2f}]"
            parts.append(f"{name} {found['value']:.2f}{ends}")
    return ", ".join([*parts, *(f"{count} with {lack}" for lack, count in kind["unreadable"].items())])
