"""What is known of a world in lines, for a terminal (`groundlab worlds NAME`) and for the site (`site/worlds.py`).

What is said is `groundlab.worlds.facts`.
"""

from groundlab.worlds.facts import Facts, Played, Submission


def lines(world: Facts) -> list[tuple[str, list[str]]]:
    """What is known of a world: a heading, and what stands under it."""
    return [
        ("what it is", [f"{world.summary}; {world.width} x {world.height} cells; {world.group}"]),
        ("mission", world.missions or [_without(world, "missions")]),
        ("words", world.words or [_without(world, "words")]),
        ("actions", [", ".join(f"{number} {name}" for number, name in enumerate(world.actions))]),
        ("time limit", [" to ".join(f"{limit:,}" for limit in dict.fromkeys(world.limits)) + " steps"]),
        ("reward", [world.reward]),
        ("chance", [_played(world.chance)]),
        ("bot", [_played(world.bot) if world.bot else _without(world, "bot")]),
        ("best published agent", [_submission(world.published) if world.published else _without(world, "published")]),
        ("made by", [world.line]),
    ]


def _without(world: Facts, what: str) -> str:
    return f"none: {world.without[what]}"


def _played(agent: Played) -> str:
    plan = f"; no plan in {agent.no_plan} of them, which count as failures" if agent.no_plan else ""
    seeds = f", {agent.seeds} seeds" if agent.seeds > 1 else ""
    source = f"; {agent.source}" if agent.source else ""
    return (
        f"{_success(agent)}, {agent.steps:.1f} steps, return {agent.returns:.3f} "
        f"({agent.episodes:,} episodes: layouts {agent.layouts}{seeds}{plan}{source})"
    )


def _submission(best: Submission) -> str:
    equals = f"; {best.equals} others have the same" if best.equals else ""
    return (
        f"{best.agent}, {_success(best)} ({best.episodes} episodes of BALROG with {best.num_dists} distractors, "
        f"played again here{equals}; {best.source})"
    )


def _success(agent: Played | Submission) -> str:
    return f"{agent.success:.1f} % [{agent.low:.1f}, {agent.high:.1f}]"
