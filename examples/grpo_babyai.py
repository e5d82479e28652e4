"""GRPO of TRL on a world in words: a chat model learns to go where it is told, one action a reply, in plain words.

    python examples/grpo_babyai.py --out out/grpo       # our Llama of 0.9 million weights, one CPU core
    python examples/grpo_babyai.py --out out/qwen --model Qwen/Qwen3-0.6B --lr 1e-6 --max-reply 8 --parts 32 \\
      --prompt "Goal: {mission}. Answer with one action: turn left, turn right or go forward."         # a GPU

A group is the episodes of one level; some replies of each are learnt, by the episode's return less the group's mean.
OUT/curve.csv has the success of each update's episodes, on levels never seen, and of the test before and after.
"""
# pyright: reportMissingImports=false

import argparse
import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from groundlab.assets import resolve_model
from groundlab.worlds import TextVectorEnv
from groundlab.worlds.adapters.replies import find_action

TRAINED = 1_000_000  # the first level that is trained on; those below are tests
# as GRPO assumes, whatever the model brings along (Qwen: other sampling, a penalty, a second end token)
SAMPLING: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}


class Episode(NamedTuple):
    """What the model read and wrote at each step, as tokens, and how it ended."""

    contexts: list[list[int]]
    replies: list[list[int]]
    paid: float
    won: float


class Player:
    """Plays levels with a model that reads its goal and what it sees now."""

    def __init__(self, words: argparse.Namespace, tokenizer: Any):
        self._words, self._tokenizer = words, tokenizer

    def play(self, model: Any, seeds: list[int]) -> list[Episode]:
        """One episode of each level, all at once; a reply that is no action costs a step and 0.1."""
        envs = TextVectorEnv(self._words.world, len(seeds), invalid="penalty", autoreset="disabled")
        _, info = envs.reset(seed=seeds)
        paid, won = np.zeros(len(seeds)), np.zeros(len(seeds))
        contexts, replies, playing = [[] for _ in seeds], [[] for _ in seeds], list(range(len(seeds)))
        while playing:
            said = [envs.actions[0]] * len(seeds)
            read = [self._context(info["mission"][k], info["descriptions"][k]) for k in playing]
            for k, context, reply in zip(playing, read, self._reply(model, read), strict=True):
                contexts[k].append(context)
                replies[k].append(reply)
                said[k] = find_action(self._tokenizer.decode(reply, skip_special_tokens=True), envs.actions)
            _, rewards, terminated, truncated, info = envs.step(said)
            paid[playing] += rewards[playing]
            won[playing] = info["success"][playing]
            playing = [k for k in playing if not (terminated[k] or truncated[k])]
        return [Episode(*each) for each in zip(contexts, replies, paid.tolist(), won.tolist(), strict=True)]

    def _context(self, mission: str, sentences: tuple[str, ...]) -> list[int]:
        goal, seen = self._words.prompt.replace("{mission}", mission), "\n".join(sentences)
        messages = [{"role": "system", "content": goal}, {"role": "user", "content": seen}]
        options = {"add_generation_prompt": True, "return_dict": False, "enable_thinking": False}
        return self._tokenizer.apply_chat_template(messages, **options)

    @torch.no_grad()
    def _reply(self, model: Any, contexts: list[list[int]]) -> list[list[int]]:
        """A reply to each context, sampled, up to its end token."""
        batch = self._tokenizer.pad({"input_ids": contexts}, padding_side="left", return_tensors="pt").to(model.device)
        end, pad = self._tokenizer.eos_token_id, self._tokenizer.pad_token_id
        options = {"eos_token_id": end, "pad_token_id": pad, "max_new_tokens": self._words.max_reply}
        tokens = model.generate(**batch, **options, **SAMPLING)
        rows = tokens[:, batch["input_ids"].shape[1] :].tolist()
        return [row[: row.index(end) + 1] if end in row else row for row in rows]


def paid(paid: list[float], **_: Any) -> list[float]:
    """The reward: the episode's return."""
    return paid


def success(won: list[float], **_: Any) -> list[float]:
    """Logged beside it, with weight 0."""
    return won


def main(words: argparse.Namespace) -> None:
    """Test, train, test."""
    torch.manual_seed(words.seed)
    folder = resolve_model(words.model)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    player, tests = Player(words, tokenizer), list(range(words.tests))

    def rollout(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        """TRL's prompts are numbers of levels, each once for every reply of a group; one is an episode's first."""
        rng = np.random.default_rng([words.seed, trainer.state.global_step])
        seeds = [int(prompt) for prompt in prompts[:: words.replies]]
        samples: dict[str, list] = {name: [] for name in ("prompt_ids", "completion_ids", "paid", "won")}
        for episode in player.play(trainer.accelerator.unwrap_model(trainer.model), seeds):
            for step in rng.integers(0, len(episode.replies), words.replies):
                row = (episode.contexts[step], episode.replies[step], episode.paid, episode.won)
                for values, value in zip(samples.values(), row, strict=True):
                    values.append(value)
        return {**samples, "logprobs": None}

    count, size = words.updates * words.groups, words.group * words.replies
    levels = [{"prompt": str(TRAINED + words.seed * count + k)} for k in range(count)]
    config = GRPOConfig(
        output_dir=words.out, max_steps=words.updates, seed=words.seed, learning_rate=words.lr,
        lr_scheduler_type="constant", num_generations=size,
        per_device_train_batch_size=size * words.groups // words.parts, gradient_accumulation_steps=words.parts,
        reward_weights=[1.0, 0.0], logging_steps=1, save_steps=10, save_total_limit=1, report_to="none",
        use_cpu=not torch.cuda.is_available(), bf16=torch.cuda.is_available(), gradient_checkpointing=False,
    )  # fmt: skip
    rows = Dataset.from_list(levels)
    trainer = GRPOTrainer(model, [paid, success], config, rows, processing_class=tokenizer, rollout_func=rollout)
    before = np.mean([episode.won for episode in player.play(trainer.model, tests)])
    begun = any(Path(words.out).glob("checkpoint-*"))
    trainer.train(resume_from_checkpoint=words.resume and begun)
    after = np.mean([episode.won for episode in player.play(trainer.model, tests)])
    logged = [row for row in trainer.state.log_history if "rewards/success/mean" in row]
    with Path(words.out, "curve.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["update", "success", "return", "test"], [0, "", "", before]])
        for row in logged:
            test = after if row is logged[-1] else ""
            writer.writerow([row["step"], row["rewards/success/mean"], row["rewards/paid/mean"], test])
    print(f"success on {words.tests} levels of {words.world}: {before:.0%} before, {after:.0%} after")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder of checkpoints and curve.csv")
    parser.add_argument("--model", default="quick-llama-chat-s0", help="ships with groundlab, a folder, or a hub name")
    parser.add_argument("--prompt", default="Goal: {mission}. Answer with one action.", help="the system message")
    parser.add_argument("--world", default="BabyAI-GoToLocalS5N2-v0", help="any world in words: groundlab worlds")
    parser.add_argument("--max-reply", type=int, default=5, help="limit of a reply, in tokens")
    parser.add_argument("--updates", type=int, default=16, help="each plays new levels")
    parser.add_argument("--groups", type=int, default=8, help="levels an update")
    parser.add_argument("--group", type=int, default=8, help="episodes of a level")
    parser.add_argument("--replies", type=int, default=4, help="learnt of an episode")
    parser.add_argument("--parts", type=int, default=1, help="an update in so many, for less memory")
    parser.add_argument("--tests", type=int, default=128, help="levels of the test")
    parser.add_argument("--lr", type=float, default=3e-4, help="constant")
    parser.add_argument("--seed", type=int, default=0, help="of levels, replies and what is learnt of them")
    parser.add_argument("--resume", action="store_true", help="from OUT's last checkpoint, if any; same options")
    main(parser.parse_args())
