"""An agent with a script of replies: what verifiers hands to an environment."""

from types import SimpleNamespace


class Interaction:
    """Says what it was given; keeps what it heard, and the rewards and metrics that were recorded of it."""

    def __init__(self, replies):
        self._replies, self.heard, self.rewards, self.metrics = list(replies), [], {}, {}
        self.trace = SimpleNamespace(
            record_reward=lambda name, value, weight: self.rewards.update({name: value}),
            record_metric=lambda name, value: self.metrics.update({name: value}),
        )

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    async def turn(self, message=None):
        self.heard.append(message)
        reply = self._replies.pop(0) if self._replies else None
        return SimpleNamespace(terminated=reply is None, last_reply=reply or "")
