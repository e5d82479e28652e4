"""Replies drawn by vLLM: for large models, in place of `generation.py`, with the same interface.

    engine = VLLMProcess(folder, "bfloat16", rank=32)                               # in a process of its own
    generate = VLLMGenerator(engine, model, writer.end_tokens, decoding)       # model: the one that is trained
    replies = generate([writer.prompt(messages) for messages in contexts], numbers)

vLLM wants other versions of torch, transformers and numba than this package (0.32 and 0.33 do), so it lives in an
environment of its own, whose Python `GROUNDLAB_VLLM_PYTHON` names, and talks through a pipe (`vllm_worker.py`).
After each update the adapters are saved in peft's format to a scratch folder and loaded under a new number. The first
replies after that are read once more by the model itself: the two must agree (`LARGEST_GAP`).

Log-probabilities are vLLM's "raw" ones, its default: at temperature 1, untruncated, what a trainer computes again.
Under the distribution drawn from they are computed here, from those of the `top_k` likeliest tokens.
What repeats: each reply has a seed, from the first of its random numbers, and requests are scheduled in a fixed order
in one process, so the same command on the same machine and versions draws the same, as two runs of the tests do on a
CPU. What does not: sums are rounded by kernels that depend on the batch, so other prompts beside a reply, another
machine or another version may change a token whose draw is that close. On GPUs `--deterministic` sets vLLM's
batch-invariant mode, where the batch plays no part (not tried). The draws are not those of `generation.py`.
"""

import json
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from groundlab.core.errors import GroundlabError
from groundlab.language.cpu_inference import version
from groundlab.language.decoding import Decoding, vllm_logprobs
from groundlab.language.generation import Replies, uniform
from groundlab.language.token_policy import token_log_probs

PYTHON_VARIABLE = "GROUNDLAB_VLLM_PYTHON"
"""Names the Python of the environment where vLLM is; without it, it is looked for in this one."""
LARGEST_GAP = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.03}
"""Nats by which log-probabilities may differ between generation and training, in the mean: rounding, by precision."""

INVARIANT_VARIABLE = "VLLM_BATCH_INVARIANT"
"""Where it is 1, vLLM reads every row as it would alone; `--deterministic` sets it."""
_INVARIANT_FROM = (8, 0)  # compute capability, as vLLM 0.32 documents its mode; it has none for CPUs
_CONTEXT = 8192  # tokens of prompt and reply, at most: a request's share of the cache is planned for as many
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM makes room for
_READ_AGAIN = 8  # replies that the model itself reads after an update
_SEEDS = 2**53  # random numbers in [0, 1) have so many digits
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # one process, so that requests are scheduled in a fixed order
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}


class VLLMProcess:
    """vLLM in a process of its own, for one model; it ends with this object."""

    def __init__(
        self,
        model: Path,
        dtype: str = "float32",
        *,
        device: str = "cpu",
        rank: int = 0,
        top_k: int = 0,
        cache_gb: float = 4.0,
    ):
        """model: its folder. rank: of the adapters that it will be given; 0: none. cache_gb: for keys and values.

        top_k: the largest that will be asked for. Raises GroundlabError where vLLM is not installed or cannot serve
        the model, or cannot be batch-invariant where that is asked for.
        """
        invariant = os.environ.get(INVARIANT_VARIABLE) == "1"
        if invariant:
            _check_invariant(device)
        limit = json.loads((model / "config.json").read_text()).get("max_position_embeddings", _CONTEXT)
        self.context, self.dtype, self.rank = min(limit, _CONTEXT), dtype, rank
        self._scratch = tempfile.TemporaryDirectory(prefix="groundlab-adapters-")
        self._adapter: tuple[str, int, str] | None = None
        self._process = _start()
        weakref.finalize(self, _end, self._process, self._scratch)
        answer = self._ask(self._options(model, device, top_k, cache_gb))
        self.version = answer["version"]
        if invariant and not answer["batch_invariant"]:
            raise GroundlabError(
                f"vllm {self.version} has no batch-invariant mode; install 0.32.0, or leave out --deterministic"
            )
        print(f"vllm {self.version} serves {model}{', batch-invariant' * invariant}", flush=True)

    def _options(self, model: Path, device: str, top_k: int, cache_gb: float) -> dict[str, Any]:
        room = next((size for size in _RANKS if size >= self.rank), self.rank)
        adapters = {"enable_lora": True, "max_loras": 1, "max_cpu_loras": 1, "max_lora_rank": room}
        return {
            "model": str(model),
            "dtype": self.dtype,
            "seed": 0,
            "skip_tokenizer_init": True,
            "generation_config": "vllm",  # nothing is taken from the model's own
            "max_model_len": self.context,
            "max_logprobs": max(1, top_k),
            "kv_cache_memory_bytes": int(cache_gb * 1e9),
            "gpu_memory_utilization": 0.01,  # of no effect beside the above but for a check before the start
            "enforce_eager": device == "cpu",  # to compile a model takes minutes there
            **(adapters if self.rank else {}),
        }

    def follow(self, model: Any) -> None:
        """From now on draw with the adapters that a peft model has now."""
        number = self._adapter[1] + 1 if self._adapter else 1
        folder = Path(self._scratch.name) / str(number % 2)  # the one before is not read any more
        model.save_pretrained(str(folder), save_embedding_layers=False)
        self._adapter = (f"update-{number}", number, str(folder))

    def draw(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], sampling: dict[str, Any], fresh: bool
    ) -> list[list[Any]]:
        """[tokens, log-probabilities, those of the likeliest] of a reply to each; fresh: forget what was read before.

        sampling: `vllm.SamplingParams`. Raises GroundlabError for prompts that are empty or too long, and when the
        engine fails.
        """
        longest = max(map(len, prompts)) + sampling["max_tokens"]
        if not all(map(len, prompts)):
            raise GroundlabError("a prompt is empty; give it at least one token")
        if longest > self.context:
            raise GroundlabError(f"prompt and reply of {longest} tokens, but {self.context} fit; shorten the window")
        asked = {"prompts": [list(tokens) for tokens in prompts], "seeds": list(seeds), "sampling": sampling}
        return self._ask({**asked, "adapter": self._adapter, "fresh": fresh})["replies"]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline() or "{}")
        except BrokenPipeError:
            answer = {}
        if "missing" in answer:
            raise _missing(answer["missing"])
        if "error" in answer:
            raise GroundlabError(f"vllm refused: {answer['error']} (its own words are above, or in the run's log.txt)")
        if not answer:
            raise GroundlabError(
                f"vllm's process is gone (exit code {self._process.wait()}; its words are above, or in the run's"
                " log.txt); the same command continues, with backend=embedded or a smaller engine_gb if it goes again"
            )
        return answer


class VLLMGenerator:
    """Draws replies as `generation.ReplyGenerator` does, from an engine that follows a model."""

    def __init__(self, engine: VLLMProcess, model: Any, end_tokens: Sequence[int], decoding: Decoding):
        """model: the trainer's, with peft's adapters where it is trained. end_tokens: a reply is over after any.

        Raises GroundlabError for draws whose worth the engine cannot tell (see `vllm_logprobs`).
        """
        self._engine, self._model = engine, model
        self.end_tokens, self.decoding = frozenset(end_tokens), decoding
        self._sampling = _sampling(decoding, end_tokens)
        self.forget()

    def forget(self) -> None:
        """Load the model's adapters anew, and read nothing that was read before; to be called after an update."""
        self._weights = -1

    def __call__(self, prompts: Sequence[Sequence[int]], randomness: torch.Generator | Tensor | None = None) -> Replies:
        """One reply a prompt, drawn with the seeds that the first of its random numbers [B, max_new_tokens] gives.

        Raises GroundlabError when engine and model do not agree on the first replies after an update.
        """
        if not prompts:
            return Replies([], [], [], [])
        numbers = uniform(len(prompts), self.decoding, randomness)[:, 0]
        seeds = [int(number * _SEEDS) for number in numbers.tolist()]
        fresh = self._notice_weights()
        rows = self._engine.draw(prompts, seeds, self._sampling, fresh)
        if fresh:
            self._compare(prompts[:_READ_AGAIN], rows[:_READ_AGAIN])
        tokens, own, best = (list(column) for column in zip(*rows, strict=True))
        ended = [reply[-1] in self.end_tokens for reply in tokens]
        drawn = [drawn_log_probs(*row, self.decoding) for row in zip(own, best, strict=True)]
        return Replies(tokens, own, drawn, ended)

    def _notice_weights(self) -> bool:
        """Whether the weights are others than at the last call; the engine follows them."""
        weights = version(self._model)
        if weights == self._weights:
            return False
        if self._engine.rank:
            self._engine.follow(self._model)
        self._weights = weights
        return True

    @torch.no_grad()
    def _compare(self, prompts: Sequence[Sequence[int]], rows: Sequence[list[Any]]) -> None:
        read = token_log_probs(self._model, prompts, [row[0] for row in rows]).log_probs.cpu()
        gap = float((torch.tensor([number for row in rows for number in row[1]]) - read).abs().mean())
        if not gap <= LARGEST_GAP[self._engine.dtype]:
            raise GroundlabError(
                f"vllm draws with other probabilities than are learnt from (by {gap:.2g} nats a token);"
                " give backend=embedded, or dtype=float32 to see whether it is rounding"
            )


def _sampling(decoding: Decoding, end_tokens: Sequence[int]) -> dict[str, Any]:
    """`vllm.SamplingParams`, all that matters of it explicit."""
    return {
        "max_tokens": decoding.max_new_tokens,
        "temperature": decoding.temperature,
        "top_k": decoding.top_k,
        "top_p": decoding.top_p,
        "stop_token_ids": list(end_tokens),
        "ignore_eos": True,  # these end a reply, and no others
        "logprobs": vllm_logprobs(decoding),
        "detokenize": False,
    }


def drawn_log_probs(own: list[float], best: list[list[float]], decoding: Decoding) -> list[float]:
    """Log-probabilities under the distribution drawn from, given those at temperature 1.

    own: of the N tokens that were drawn; best: of the likeliest at each place, falling, at least `top_k` of them.
    """
    if decoding.temperature == 0:
        return [0.0] * len(own)
    count = vllm_logprobs(decoding)
    if count == 0:
        return own
    scaled = torch.tensor([row[:count] for row in best], dtype=torch.float64) / decoding.temperature
    shares = scaled.softmax(-1)
    kept = scaled.where(shares.cumsum(-1) - shares < decoding.top_p, -torch.inf).logsumexp(-1)
    return (torch.tensor(own, dtype=torch.float64) / decoding.temperature - kept).tolist()


def _check_invariant(device: str) -> None:
    """Raises GroundlabError where vLLM's kernels depend on the batch whatever is asked of them."""
    where = "a CPU" if device == "cpu" else None
    if where is None and (capability := torch.cuda.get_device_capability(device)) < _INVARIANT_FROM:
        where = "a GPU of compute capability {}.{}".format(*capability)
    if where:
        raise GroundlabError(
            f"--deterministic needs vllm's batch-invariant mode, which {where} does not have (a GPU of"
            " {}.{} does); give backend=embedded, or leave out --deterministic".format(*_INVARIANT_FROM)
        )


def _start() -> subprocess.Popen[str]:
    """Its own session, so that Ctrl-C reaches this process alone, which stops when its step is done."""
    python = os.environ.get(PYTHON_VARIABLE, sys.executable)
    script = Path(__file__).with_name("vllm_worker.py")
    environment = {**os.environ, **_ENVIRONMENT}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    try:
        return subprocess.Popen([python, "-P", str(script)], env=environment, start_new_session=True, **pipes)
    except OSError:
        raise _missing(f"{PYTHON_VARIABLE}={python} does not start") from None


def _end(process: subprocess.Popen[str], scratch: Any) -> None:
    """Close its input, which ends it, and wait; a kill, should it hang."""
    assert process.stdin and process.stdout
    try:
        process.stdin.close()
        process.wait(10)
    except (OSError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()
    process.stdout.close()
    scratch.cleanup()


def _missing(cause: str) -> GroundlabError:
    return GroundlabError(
        f"backend vllm: {cause}; install it beside this environment, python3 -m venv vllm && vllm/bin/pip install"
        f" vllm==0.32.0, and set {PYTHON_VARIABLE}=vllm/bin/python"
    )
