"""Evaluation of agents that answer in words: fixed layouts, each to its end, or whichever episodes finish first.

    results = evaluate(chat_policy, "Reasoning-GoTo-v0", thinks=True, settings=settings, seed=0)

A row holds success, return (the environment's reward, without penalties), steps of the environment, length (replies,
invalid ones included) and invalid. The replies of a layout are sampled from its own generator, so its row does not
depend on which others are played. "first-finished" counts as the original did (quirk Q9): short episodes come first.
Source: docs/papers/reasoning-method.md#s5.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from groundlab import worlds
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.papers import recording
from groundlab.papers.episodes import FIRST_FINISHED, summary
from groundlab.papers.reasoning.policy import ChatPolicy, Reply
from groundlab.papers.reasoning.settings import DONOR_LAYOUTS, ReplySettings
from groundlab.papers.reasoning.text_env import Row, TextEnv, parse_action
from groundlab.papers.reasoning.thoughts import SWAPPED, reply_with_swap, split_replies
from groundlab.papers.training import Evaluation
from groundlab.worlds import GridVectorEnv, codes

SAMPLED = "sampled"
ReplyFn = Callable[[Sequence[Sequence[int]], np.ndarray], list[Reply]]
"""What `ChatPolicy.reply` does: prompts and their random numbers to replies."""
Line = dict[str, Any]
"""What was read and said in a step of an episode: seen, said, valid."""


def make_env(world: str, count: int, thinks: bool, settings: ReplySettings) -> TextEnv:
    """`count` environments of a world, to be acted in by replies."""
    envs = GridVectorEnv(
        worlds.find(world), count, autoreset="disabled", kinds="per-episode", num_dists=settings.num_dists
    )
    return TextEnv(envs, thinks, settings)


def evaluate(chat_policy: ChatPolicy, world: str, thinks: bool, settings: ReplySettings, seed: int) -> list[Evaluation]:
    """The layouts of the settings, and whatever else they ask for.

    Policies are "sampled", the names of the other worlds of `settings.tests`, "first-finished", and the two of
    `play_swapped`.
    """
    shown = settings.fidelity.shown_in_evaluation
    in_context = settings.model_copy(update={"hide_invalid": False}) if shown else settings
    chat_policy.forget()
    layouts = parse_layouts(settings.layouts)
    results = [summarise(SAMPLED, play_layouts(chat_policy, world, layouts, thinks, in_context, seed))]
    plain = in_context.model_copy(update={"transcripts": 0})
    for test in settings.tests:
        results.append(summarise(test, play_layouts(chat_policy, test, layouts, thinks, plain, seed)))
    if settings.first_finished:
        rows = play_first_finished(chat_policy, world, thinks, in_context, seed)
        results.append(summarise(FIRST_FINISHED, rows))
    if thinks and settings.swapped:
        results += play_swapped(chat_policy, world, settings, seed)
    return results


def summarise(policy: str, rows: list[Row]) -> Evaluation:
    """An evaluation of these rows."""
    result = summary(policy, rows)
    result["mean"] |= {name: float(np.mean([row[name] for row in rows])) for name in ("length", "invalid")}
    return result


def play_layouts(
    chat_policy: ChatPolicy,
    world: str,
    layouts: Sequence[int],
    thinks: bool,
    settings: ReplySettings,
    seed: int,
    reply: ReplyFn | None = None,
) -> list[Row]:
    """Play each layout (a reset seed) once, to its end; rows in the order of the layouts.

    reply: another way to answer than the policy's own, such as one with swapped thoughts.
    """
    text_env = make_env(world, len(layouts), thinks, settings)
    rngs = [generator(seed, "evaluation", layout) for layout in layouts]
    active = list(range(len(layouts)))
    text_env.reset(active, list(layouts))
    rows: list[Row] = [{} for _ in layouts]
    dialogues: list[list[Line]] = [[] for _ in layouts]
    while active:
        numbers = np.stack([rngs[env].random(settings.max_new_tokens) for env in active])
        lines, ended = _step(chat_policy, reply or chat_policy.reply, text_env, active, numbers)
        for env, line in lines.items():
            dialogues[env].append(line)
        for env, row in ended.items():
            rows[env] = {"layout": layouts[env], **row}
            if env < settings.transcripts:
                rows[env] |= {"mission": text_env.mission(env), "told": dialogues[env]}
            _keep(rows[env], world, dialogues[env], thinks, settings)
        active = [env for env in active if env not in ended]
    return rows


def _keep(row: Row, world: str, dialogue: list[Line], thinks: bool, settings: ReplySettings) -> None:
    """Keep an episode that has ended, if somebody records; invalid replies stand before the one that was an action."""
    actions, replies, before = [], [], ""
    for line in dialogue:
        before += f"{line['said']}\n"
        action = parse_action(line["said"], thinks, settings.parser)
        if action is not None:
            actions.append(action)
            replies.append(before)
            before = ""
    recording.keep(row, world, codes.ACTIONS, actions, settings.num_dists, replies)


def play_first_finished(
    chat_policy: ChatPolicy, world: str, thinks: bool, settings: ReplySettings, seed: int
) -> list[Row]:
    """The first `first_finished` episodes that end among `num_envs` environments, which restart at once."""
    text_env, rng = make_env(world, settings.num_envs, thinks, settings), generator(seed, "evaluation", FIRST_FINISHED)
    envs = list(range(settings.num_envs))
    text_env.reset(envs, envs)
    rows: list[Row] = []
    while len(rows) < settings.first_finished:
        numbers = rng.random((len(envs), settings.max_new_tokens))
        _, ended = _step(chat_policy, chat_policy.reply, text_env, envs, numbers)
        rows += [{"layout": env, **row} for env, row in ended.items()]
        if ended:
            text_env.reset(list(ended))
    return rows[: settings.first_finished]


def play_swapped(chat_policy: ChatPolicy, world: str, settings: ReplySettings, seed: int) -> list[Evaluation]:
    """The layouts of the settings, played with every thought left out, and with thoughts from other states."""
    settings = settings.model_copy(update={"transcripts": 0})
    donors = [parts for parts in split_replies(chat_policy, *probe_states(world, chat_policy, settings, seed)) if parts]
    results = []
    for swap, policy in SWAPPED.items():
        chat_policy.forget()
        reply = partial(reply_with_swap, chat_policy, donors, swap)
        rows = play_layouts(chat_policy, world, parse_layouts(settings.layouts), True, settings, seed, reply)
        results.append(summarise(policy, rows))
    return results


def probe_states(
    world: str, chat_policy: ChatPolicy, settings: ReplySettings, seed: int
) -> tuple[list[list[int]], np.ndarray]:
    """The beginnings of the 24 episodes whose thoughts are probed: what the reasoning agent reads there, and the random
    numbers [24, max_new_tokens] for its replies, the same at every update.
    """
    layouts = parse_layouts(DONOR_LAYOUTS)
    text_env = make_env(world, len(layouts), True, settings)
    envs = list(range(len(layouts)))
    text_env.reset(envs, layouts)
    prompts = [chat_policy.prompt(text_env.messages(env)) for env in envs]
    return prompts, generator(seed, "probe").random((len(envs), settings.max_new_tokens))


def _step(
    chat_policy: ChatPolicy, reply: ReplyFn, text_env: TextEnv, envs: list[int], numbers: np.ndarray
) -> tuple[dict[int, Line], dict[int, Row]]:
    """One reply in each of these environments: what was read and said there, and the episodes that are over."""
    conversations = [text_env.messages(env) for env in envs]
    replies = reply([chat_policy.prompt(messages) for messages in conversations], numbers)
    results = text_env.step(envs, [each.text for each in replies])
    lines, ended = {}, {}
    for env, messages, each, result in zip(envs, conversations, replies, results, strict=True):
        lines[env] = {"seen": messages[-1]["content"], "said": each.text, "valid": result.valid}
        if result.row is not None:
            ended[env] = result.row
    return lines, ended
