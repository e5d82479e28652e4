"""A vLLM engine, run as a program by the Python of vLLM's own environment; it knows nothing of this package.

    VLLM_PYTHON -P engine.py          # a line of JSON in, a line of JSON out, until its input ends

First line in: the arguments of `vllm.LLM`; out: {"version": ..., "batch_invariant": whether it reads every row as it
would alone}, or {"missing" or "error": ...} and the end.
Then {"prompts", "seeds", "sampling", "adapter": [name, number, folder] or null, "fresh": whether to forget prefixes};
out: {"replies": [[tokens, log-probabilities, those of the likeliest tokens at each place], ...]}, or "error".
Started by `served.py`, which is where to read next.
"""

import importlib
import json
import os
import sys
import traceback
from typing import Any, TextIO


def _reply(output: Any) -> list[Any]:
    drawn = output.outputs[0]
    own = [told[token].logprob for token, told in zip(drawn.token_ids, drawn.logprobs, strict=True)]
    best = [sorted((each.logprob for each in told.values()), reverse=True) for told in drawn.logprobs]
    return [list(drawn.token_ids), own, best]


def _answer(vllm: Any, engine: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Draw a reply to each prompt."""
    if asked["fresh"]:
        engine.reset_prefix_cache()
    adapter = importlib.import_module("vllm.lora.request").LoRARequest(*asked["adapter"]) if asked["adapter"] else None
    sampling = [vllm.SamplingParams(**asked["sampling"], seed=seed) for seed in asked["seeds"]]
    prompts = [{"prompt_token_ids": tokens} for tokens in asked["prompts"]]
    outputs = engine.generate(prompts, sampling, lora_request=adapter, use_tqdm=False)
    return {"replies": [_reply(output) for output in outputs]}


def _told(error: Exception) -> str:
    traceback.print_exc()
    return f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"


def serve(asked: TextIO, answers: TextIO) -> None:
    """Start the engine that the first line asks for, and answer the others."""

    def tell(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    options = json.loads(asked.readline())
    try:
        vllm = importlib.import_module("vllm")
    except ImportError as error:
        return tell({"missing": str(error)})
    try:
        engine = vllm.LLM(**options)
    except Exception as error:
        return tell({"error": _told(error)})
    invariant = getattr(importlib.import_module("vllm.envs"), "VLLM_BATCH_INVARIANT", False)
    tell({"version": vllm.__version__, "batch_invariant": bool(invariant)})
    for line in asked:
        try:
            tell(_answer(vllm, engine, json.loads(line)))
        except Exception as error:
            tell({"error": _told(error)})


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    serve(sys.stdin, answers)
    answers.close()
    os._exit(0)  # there is nothing to tidy up, and that would take seconds
