"""Conversations as tokens: how each family of models writes roles and turns, and a prompt without reading it all again.

    writer = DialogueWriter(tokenizer)
    tokens = writer.prompt([{"role": "system", "content": "..."}, {"role": "user", "content": "..."}])

The formats are our own text: nothing is taken from a tokenizer's stored template, so no date header and no hidden
system message gets in (Llama 3's stock template writes both). Message contents are trimmed, and special tokens that
stand in them are read as ordinary characters. Each message is tokenised once: the prompt of the next step is the
same lists put together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from groundlab.core.errors import unknown_name

ROLES = ("system", "user", "assistant")
_REMEMBERED = 4096  # messages whose tokens are kept


@dataclass(frozen=True)
class Format:
    """What is written around messages; `{role}` stands for the role's name."""

    beginning: str
    opening: str
    ending: str

    def text(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The conversation as one text, up to where the assistant's next reply begins."""
        told = "".join(
            f"{self.opening.format(role=message['role'])}{message['content'].strip()}{self.ending}"
            for message in messages
        )
        return f"{self.beginning}{told}{self.opening.format(role='assistant')}"

    @property
    def template(self) -> str:
        """The same as a Jinja template for `tokenizer.apply_chat_template`, which other programs read."""
        role = self.opening.replace("{role}", "{{ message['role'] }}")
        turns = f"{{% for message in messages %}}{role}{{{{ message['content'] | trim }}}}{self.ending}{{% endfor %}}"
        reply = f"{{% if add_generation_prompt %}}{self.opening.format(role='assistant')}{{% endif %}}"
        return f"{self.beginning}{turns}{reply}"


FORMATS = {
    "groundlab": Format("", "<{role}>", "</s>"),
    "llama3": Format("<|begin_of_text|>", "<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>"),
    "chatml": Format("", "<|im_start|>{role}\n", "<|im_end|>\n"),
    "plain": Format("", "{role}: ", "\n"),
}
"""Name -> format. `plain` serves any tokenizer; a reply then ends at the tokenizer's end token or at a new line."""

_MARKS = {"groundlab": "<assistant>", "llama3": "<|start_header_id|>", "chatml": "<|im_start|>"}
_ENDS = {"llama3": ("<|end_of_text|>", "<|eom_id|>"), "chatml": ("<|endoftext|>",)}
ROLE_TOKENS = tuple(FORMATS["groundlab"].opening.format(role=role) for role in ROLES)


def beginning(tokenizer: Any) -> tuple[int, ...]:
    """The token that texts begin with (BOS), where the tokenizer itself adds one, as those of Llama and Gemma do."""
    first = tokenizer("")["input_ids"][:1]
    return tuple(first) if first == [tokenizer.bos_token_id] else ()


def find_format(tokenizer: Any) -> str:
    """The name of the format whose marks are tokens of a tokenizer; "plain" where none is."""
    known = tokenizer.get_vocab()
    return next((name for name, mark in _MARKS.items() if mark in known), "plain")


class DialogueWriter:
    """Writes conversations for one tokenizer."""

    def __init__(self, tokenizer: Any):
        self.tokenizer, self.name = tokenizer, find_format(tokenizer)
        self.format = FORMATS[self.name]
        self._beginning = self._marks(self.format.beginning)
        self._ending = self._marks(self.format.ending)
        self._openings = {role: self._marks(self.format.opening.format(role=role)) for role in ROLES}
        self._known: dict[tuple[str, str], tuple[int, ...]] = {}

    def _marks(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()

    @cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """Tokens after which a reply is over; all of them, where a model knows several
        (docs/papers/reasoning-reference.md#q10).
        """
        known = self.tokenizer.get_vocab()
        others = [known[mark] for mark in _ENDS.get(self.name, ()) if mark in known]
        own = self._ending[-1:] if self.name == "plain" else self._ending[:1]
        ends = [*own, self.tokenizer.eos_token_id, *others]
        return tuple(dict.fromkeys(end for end in ends if end is not None))

    def message(self, role: str, content: str) -> tuple[int, ...]:
        """The tokens of one message with its role and its end. Raises GroundlabError for an unknown role."""
        if role not in self._openings:
            raise unknown_name("role", role, ROLES)
        if (role, content) not in self._known:
            if len(self._known) == _REMEMBERED:
                self._known.clear()
            told = self.tokenizer(content.strip(), add_special_tokens=False, split_special_tokens=True)["input_ids"]
            self._known[role, content] = (*self._openings[role], *told, *self._ending)
        return self._known[role, content]

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The tokens of a conversation, up to where the assistant's next reply begins."""
        tokens = list(self._beginning)
        for message in messages:
            tokens += self.message(message["role"], message["content"])
        return [*tokens, *self._openings["assistant"]]

    def text(self, tokens: Sequence[int]) -> str:
        """A reply as text, without its end."""
        ends = self.end_tokens
        told = tokens[: next((place for place, token in enumerate(tokens) if token in ends), len(tokens))]
        return self.tokenizer.decode(list(told), skip_special_tokens=True, clean_up_tokenization_spaces=False)
