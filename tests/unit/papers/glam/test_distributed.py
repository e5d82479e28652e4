"""What a group of processes shares, and what cannot be launched; test_distributed.py of the processes starts some."""

import pytest

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
