"""A trained agent on a page: what it reads, how likely its choices are, and both again after some words are changed.

    from groundlab.pages import agents
    agents.choices("glam", folder, layout=0, change={"yellow": "grey"})     # of the agent that the folder keeps
    agents.choices_of(agent, layout=0)                                      # of any: lab.load_agent, or a learner

The same function serves the agents of all papers. Each reads something else: GLAM's agent a prompt, the reasoning
agent a conversation, that of background knowledge the codes of its view. The mediator sees two frames, and its planner
reads a line of words.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.lab.page_records import Agent, load_agent
from groundlab.pages.worlds import Page
from groundlab.papers.glam.policy import CachedPolicy, Reader
from groundlab.papers.knowledge.captions import observations as captions
from groundlab.papers.knowledge.observations import adapter_for, normalise
from groundlab.papers.mediator import agent as mediator
from groundlab.papers.mediator.episodes import Episode, Rules, make_envs, play
from groundlab.papers.mediator.planner import planner_for
from groundlab.papers.reasoning.evaluation import make_env
from groundlab.papers.reasoning.policy import evaluation_policy
from groundlab.papers.reasoning.settings import TrainingSettings
from groundlab.papers.reasoning.text_env import ACTIONS, parse_action
from groundlab.worlds.codes import COLOURS, TYPES

REPLIES = 48  # sampled from a thinking agent: one in 48 is told apart from none
Change = Mapping[str, str]


@dataclass(frozen=True)
class Choice:
    """What was read, and how likely each answer was."""

    text: str
    shares: dict[str, float]
    remark: str = ""


def choices(paper: str, folder: str | Path, layout: int = 0, change: Change | None = None) -> Page:
    """`choices_of` the trained agent that a folder of records keeps of a paper; one line where that is impossible."""
    try:
        agent = load_agent(paper, folder)
        before = _read(agent, layout)
    except GroundlabError as error:
        return Page(f"<p>{html.escape(str(error))}</p>", str(error))
    try:
        return _beside(agent, layout, before, change)
    except GroundlabError as error:
        return _page(agent, layout, [before]).with_note(str(error))


def choices_of(agent: Agent, layout: int = 0, change: Change | None = None) -> Page:
    """The beginning of a test layout: what the agent reads and how likely its choices are; then with words changed.

    change: word -> other word. Raises GroundlabError for a word that is not there, and for agents of other methods.
    """
    return _beside(agent, layout, _read(agent, layout), change)


def _read(agent: Agent, layout: int, change: Change | None = None) -> Choice:
    read = _READERS.get(agent.spec.method)
    if read is None:
        raise GroundlabError(f"no page shows what {agent.spec.method} reads; load one of {', '.join(sorted(_READERS))}")
    return read(agent, layout, change or {})


def _beside(agent: Agent, layout: int, before: Choice, change: Change | None) -> Page:
    """What was read as it is, and what is read once words are changed."""
    if not change:
        return _page(agent, layout, [before])
    missing = [word for word in change if replaced(before.text, {word: ""}) == before.text]
    if missing:
        raise GroundlabError(f"{missing[0]!r} is not in what the agent reads at layout {layout}; choose a word of it")
    return _page(agent, layout, [before, _read(agent, layout, change)], change)


def replaced(text: str, change: Change) -> str:
    """The text with whole words exchanged, all at once: a swap of two words is possible."""
    if not change:
        return text
    pattern = "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in sorted(change, key=len, reverse=True))
    return re.sub(pattern, lambda found: change[found.group()], text)


def _glam(agent: Agent, layout: int, change: Change) -> Choice:
    settings, world = agent.learner.settings, agent.spec.world
    observation, _ = worlds.GridEnv(world, num_dists=settings.num_dists).reset(seed=layout)
    reader = Reader(1, world, settings)
    reader.start(0, observation)
    prompt = replaced(reader.prompts({"mission": [observation["mission"]]}, np.array([0]))[0], change)
    log_probs, _ = CachedPolicy(agent.learner.scorer)([prompt])
    return Choice(prompt, dict(zip(reader.action_texts, log_probs[0].exp().tolist(), strict=True)))


def _reasoning(agent: Agent, layout: int, change: Change) -> Choice:
    settings, thinks = TrainingSettings(**agent.spec.settings), agent.spec.method == "reasoning"
    env = make_env(agent.spec.world, 1, thinks, settings)
    env.reset([0], [layout])
    messages = [{**each, "content": replaced(each["content"], change)} for each in env.messages(0)]
    policy = evaluation_policy(agent.learner.policy.model, agent.learner.tokenizer, settings)
    numbers = generator(0, "replies of a page").random((REPLIES, settings.max_new_tokens))
    texts = [reply.text for reply in policy.reply([policy.prompt(messages)] * REPLIES, numbers)]
    actions = [parse_action(text, thinks, settings.parser) for text in texts]
    counts = Counter("invalid" if action is None else ACTIONS[action] for action in actions)
    prompt = "\n\n".join(f"{each['role']}: {each['content']}" for each in messages)
    remark = f"shares of {REPLIES} sampled replies; the commonest: {Counter(texts).most_common(1)[0][0]}"
    return Choice(prompt, {name: counts[name] / REPLIES for name in (*ACTIONS, "invalid")}, remark)


def _knowledge(agent: Agent, layout: int, change: Change) -> Choice:
    adapter = adapter_for(agent.spec.world)
    if adapter.shape[1:] != (7, 7):
        raise GroundlabError(f"{agent.spec.world} has no view of cells; load an agent of a grid world")
    observation, _ = adapter.make(agent.spec.world, 1, "disabled").reset(seed=[layout])
    views = _recoded(adapter.view(observation), change)
    with torch.no_grad():
        shares = agent.learner.agent(torch.from_numpy(normalise(views))).logits.softmax(-1)[0]
    remark = "the network reads the codes of the view, which the words tell"
    return Choice(captions(views)[0], dict(zip(adapter.actions, shares.tolist(), strict=True)), remark)


def _recoded(views: np.ndarray, change: Change) -> np.ndarray:
    """Views uint8 [B, 7, 7, 3] with other types or colours of things. Raises GroundlabError for other words."""
    recoded = views.copy()
    for old, new in change.items():
        channel, names = (0, TYPES) if old in TYPES else (1, COLOURS)
        if old not in names or new not in names:
            ways = f"exchange two colours ({', '.join(COLOURS)}) or two things (door, key, ball, box)"
            raise GroundlabError(f"the view has no way to show {old!r} as {new!r}; {ways}")
        things = views[..., 0] > TYPES.index("wall")
        recoded[..., channel][things & (views[..., channel] == names.index(old))] = names.index(new)
    return recoded


class _Watched(mediator.AskingAgent):
    """The asking network at its likeliest decisions, with what its planner would read and how likely asking was."""

    def begin(self, images: np.ndarray) -> None:
        super().begin(images)
        self.steps: list[tuple[str, float]] = []

    def decide(self, episodes: list[Episode], active: np.ndarray, images: np.ndarray) -> np.ndarray:
        asks = super().decide(episodes, active, images)
        self.steps.append((episodes[0].text(), float(self.last_probabilities[0])))
        return asks


def _mediator(agent: Agent, layout: int, change: Change) -> Choice:
    """The moment of an episode at which asking is likeliest, and the plan that the planner makes of the words."""
    settings = mediator.AskingSettings(**agent.spec.settings)
    planner = planner_for(agent.spec.world, settings)
    watched = _Watched(agent.learner.network, settings, np.ones(1, np.bool_))
    rules = Rules(planner, settings.ask_lambda, settings.fidelity)
    episode = play(make_envs(agent.spec.world, 1), [layout], watched, rules)[0]
    step = max(range(len(watched.steps)), key=lambda number: watched.steps[number][1])
    text, ask = watched.steps[step]
    question = replaced(text, change)
    reply = planner.plan(question, episode.translator.coordinates, seed=0)[0]
    known = "the network sees two frames and no words; the planner reads the words"
    return Choice(question, {"ask": ask, "go on": 1 - ask}, f"step {step + 1}; {known} and answers: {reply}")


_READERS: dict[str, Callable[[Agent, int, Change], Choice]] = {
    "glam": _glam,
    "reasoning": _reasoning,
    "direct": _reasoning,
    "knowledge": _knowledge,
    "mediator": _mediator,
}


def _page(agent: Agent, layout: int, read: list[Choice], change: Change | None = None) -> Page:
    """One table of shares, a column for each reading, below the text with the changed words marked."""
    words = ", ".join(f"{old} → {new}" for old, new in (change or {}).items())
    heads = ["as it is", words][: len(read)]
    title = f"{agent.spec.label}, layout {layout}"
    rows = [(name, [each.shares[name] for each in read]) for name in read[0].shares]
    body = "".join(
        f"<tr><td style='text-align:left'>{html.escape(name)}</td>{''.join(_bar(share) for share in shares)}</tr>"
        for name, shares in rows
    )
    top = "".join(f"<th style='text-align:left'>{html.escape(head)}</th>" for head in ("", *heads))
    remarks = "".join(
        f"<p>{html.escape(f'{head}: {each.remark}')}</p>" for head, each in zip(heads, read, strict=True) if each.remark
    )
    text = f"<pre style='text-align:left;white-space:pre-wrap'>{_marked(read[0].text, change or {})}</pre>"
    markup = f"<p><b>{html.escape(title)}</b></p>{text}<table><tr>{top}</tr>{body}</table>{remarks}"
    lines = [
        title,
        read[-1].text,
        *(f"{name}: {'  '.join(f'{share:.1%}' for share in shares)}" for name, shares in rows),
    ]
    return Page(markup, "\n".join([*lines, *(each.remark for each in read if each.remark)]))


def _bar(share: float) -> str:
    bar = f"<span style='display:inline-block;height:0.7em;width:{120 * share:.0f}px;background:#0072B2'></span>"
    return f"<td style='text-align:left;min-width:190px'>{bar} {share:.1%}</td>"


def _marked(text: str, change: Change) -> str:
    marks = {word: f"\0{word}\1{other}\2" for word, other in change.items()}
    escaped = html.escape(replaced(text, marks))
    return escaped.replace("\0", "<del>").replace("\1", "</del> <ins><b>").replace("\2", "</b></ins>")
