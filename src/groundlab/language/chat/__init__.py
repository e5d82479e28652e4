"""One interface for all LLM advice: `ChatModel.reply(messages, sampling) -> text`, and the ledger of past replies.

    interface.py   what a question, a reply and a chat model are; `Scripted`, which answers by a stated rule
    ledger.py      replies on disk, shared by processes: `Recorded` replays, `Recording` fills, within a budget
    connection.py  how this machine reaches a server: address, key, patience, prices, budget; from the environment only
    redaction.py   a key struck out of what a server says
    texts.py       the text that counts of what a model wrote: parts joined, thoughts cut off
    openai_client  the `openai` backend: any OpenAI-compatible server, by the openai package
    local_client   the `local` backend: a transformers model in this process
    factory.py     start here: the settings that name a model, and the chat model that they ask for

A method asks `factory.chat_model`.
"""

from groundlab.language.chat.interface import ChatModel, Messages, Reply, Sampling, Scripted, Tokens, Unanswered
from groundlab.language.chat.ledger import Budget, Ledger, Recorded, Recording
from groundlab.language.chat.texts import without_thoughts

__all__ = [
    "Budget",
    "ChatModel",
    "Ledger",
    "Messages",
    "Recorded",
    "Recording",
    "Reply",
    "Sampling",
    "Scripted",
    "Tokens",
    "Unanswered",
    "without_thoughts",
]
