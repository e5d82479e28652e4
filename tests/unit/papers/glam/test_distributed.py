"""What a group of processes shares, and what cannot be launched; test_distributed.py of the processes starts some."""

import accelerate.utils
import pytest
import torch

from groundlab.core.errors import GroundlabError
from groundlab.core.run import RunSpec
from groundlab.lab import worker
from groundlab.learning import distributed
from groundlab.learning.distributed import Group

from .conftest import WORLD


def test_prompts_are_dealt_out_once_and_equal_ones_go_together():
    prompts = [f"{'very ' * (number % 3)}red ball {number % 7}" for number in range(40)]
    shares = [Group(rank, 3).share(prompts) for rank in range(3)]
    assert sorted(place for share in shares for place in share) == list(range(40))
    texts = [{prompts[place] for place in share} for share in shares]
    assert sum(map(len, texts)) == len(set(prompts)) and max(map(len, texts)) - min(map(len, texts)) <= 1
    assert Group().share(prompts) == list(range(40))


def test_alone_nothing_is_sent_and_everything_is_its_own(monkeypatch):
    numbers, word = torch.tensor([1.0, 2.0]), {"step": 3}
    alone = Group()
    assert distributed.SINGLE_PROCESS == distributed.joined() == alone == Group(rank=0, size=1)
    assert alone.add(numbers) is numbers and alone.broadcast(word) is word
    assert alone.any(True) and not alone.any(False)
    monkeypatch.setattr(distributed, "_added", lambda tensor: 3 * tensor)  # another process that has twice ours
    monkeypatch.setattr(accelerate.utils, "broadcast_object_list", lambda words: ["the first one's"])
    assert Group(1, 2).broadcast() == "the first one's"
    assert Group(0, 2).add(numbers).tolist() == [3.0, 6.0]
    assert Group(0, 2).any(True) and not Group(0, 2).any(False)


def test_what_cannot_be_launched_is_told_in_one_line(monkeypatch):
    spec = RunSpec(method="bot", world=WORLD, seed=0)
    for name in ("LOCAL_RANK", "WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "ACCELERATE_USE_CPU", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert worker.join_group(spec) == distributed.SINGLE_PROCESS
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    monkeypatch.setenv("MASTER_PORT", "29500")
    with pytest.raises(GroundlabError, match="starts one process; write --multi_gpu"):
        worker.join_group(spec)
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(GroundlabError, match="bot is trained by one process"):
        worker.join_group(spec)
