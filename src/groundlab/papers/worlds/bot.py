"""The bot: minigrid's planner on test layouts, the length that other agents are measured against.

    groundlab evaluate bot --world BabyAI-MixedTrainLocal-v0/putnext --layouts 0-99

It succeeds on every BabyAI level here, so it is also the source of demonstrations
(docs/papers/glam-reference.md#env-11-14 and
#env-11-15).
"""

from typing import Any

from groundlab import worlds
from groundlab.core.schema import parse_layouts
from groundlab.papers import recording
from groundlab.papers.episodes import summary
from groundlab.papers.method import Request
from groundlab.papers.worlds.settings import BotSettings
from groundlab.worlds.adapters.minigrid_bot import NO_PLAN, Bot
from groundlab.worlds.codes import ACTIONS


def play(world: str, layouts: list[int], num_dists: int | None = None) -> list[dict[str, Any]]:
    """One episode a layout (the reset seed), played by the bot: rows as `episodes.play_layouts` gives them.

    An episode in which minigrid's planner has no plan is a failure, as long as it lasted; its row says `no_plan`.
    """
    kinds = worlds.find(world).kinds
    names = [f"{world}/{kind}" for kind in kinds] if len(kinds) > 1 else [world]
    envs = [worlds.GridEnv(name, num_dists=num_dists) for name in names]
    return [_episode(envs[layout % len(envs)], layout, num_dists) for layout in layouts]


def _episode(env: worlds.GridEnv, layout: int, num_dists: int | None) -> dict[str, Any]:
    env.reset(seed=layout)
    bot, taken, total, terminated, truncated, lost = Bot(env), [], 0.0, False, False, {}
    while not (terminated or truncated):
        try:
            action = bot.act()
        except NO_PLAN:
            lost = {"no_plan": True}
            break
        _, reward, terminated, truncated, _ = env.step(action)
        bot.observe(action)
        taken.append(int(action))
        total += reward
    row = {"layout": layout, "steps": len(taken), "success": total > 0, "return": total, **lost}
    row |= {"kind": env.world.kinds[0]} if env.world.kinds else {}
    recording.keep(row, env.world.name, ACTIONS, taken, num_dists)
    return row


def evaluate(request: Request) -> list[dict[str, Any]]:
    """The bot on the test layouts: one evaluation, policy "bot"."""
    settings = BotSettings(**request.settings)
    rows = play(request.world, parse_layouts(settings.layouts), settings.num_dists)
    return [summary("bot", rows)]
