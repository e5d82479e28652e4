"""An optimizer that moves 16-bit weights as float32 ones move: it keeps the weights in float32 besides.

    optimizer = make_optimizer(torch.optim.Adam, parameters, lr=1e-6)

A bfloat16 weight has 8 bits: a step below 1/256 of it is rounded away, so that at the learning rates of language models
hardly a weight moves. So the optimizer owns a float32 copy of each (its master). Gradients are added up there, the step
is taken there, and the model gets the rounded result. What the optimizer is asked for (`param_groups`, norms of
gradients) are the masters; a checkpoint holds them. Float32 weights are their own masters: nothing changes for them.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from groundlab.core.errors import GroundlabError

_LEAVES = "leaves"
MASTER = "master"
"""Of a weight's state in a checkpoint: its master."""


def make_optimizer(
    kind: type[torch.optim.Optimizer], parameters: Sequence[nn.Parameter], **options: Any
) -> torch.optim.Optimizer:
    """An optimizer of these weights, with masters for those in bfloat16.

    Raises GroundlabError for float16, whose smallest gradients are zeros without a scaled loss.
    """
    if any(parameter.dtype == torch.float16 for parameter in parameters):
        raise GroundlabError(
            "float16 weights lose small gradients; give dtype=bfloat16, or lora_rank to tune adapters only"
        )
    masters = [_master(parameter) for parameter in parameters]
    optimizer = kind(masters, **options)  # pyright: ignore[reportCallIssue]
    setattr(optimizer, _LEAVES, list(parameters))
    pairs = {
        number: pair for number, pair in enumerate(zip(parameters, masters, strict=True)) if pair[0] is not pair[1]
    }
    if pairs:
        _follow(optimizer, pairs)
    return optimizer


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """The weights that an optimizer steps: where gradients are, in float32."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def leaves_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """The model's own weights, in the order of `parameters_of`: what autograd has gradients for."""
    return getattr(optimizer, _LEAVES, None) or parameters_of(optimizer)


def _master(parameter: nn.Parameter) -> nn.Parameter:
    if parameter.dtype != torch.bfloat16:
        return parameter
    return nn.Parameter(parameter.detach().float())


def _follow(optimizer: Any, pairs: dict[int, tuple[nn.Parameter, nn.Parameter]]) -> None:
    """Gradients go to the masters as they come, weights come back after a step, and checkpoints hold the masters."""

    def hand_over(master: nn.Parameter):
        def hook(parameter: nn.Parameter) -> None:
            assert parameter.grad is not None
            gradient = parameter.grad.float()
            master.grad = gradient if master.grad is None else master.grad.add_(gradient)
            parameter.grad = None

        return hook

    @torch.no_grad()
    def copy_back(*_: Any) -> None:
        for parameter, master in pairs.values():
            parameter.copy_(master)

    def store(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        own = dict(state["state"])
        for number, (_parameter, master) in pairs.items():
            own[number] = {**own.get(number, {}), MASTER: master.detach()}
        return {**state, "state": own}

    @torch.no_grad()
    def load(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        own = {number: dict(values) for number, values in state["state"].items()}
        for number, (parameter, master) in pairs.items():
            master.copy_(own.get(number, {}).pop(MASTER, parameter))
        return {**state, "state": {number: values for number, values in own.items() if values}}

    for parameter, master in pairs.values():
        parameter.register_post_accumulate_grad_hook(hand_over(master))
    optimizer.register_step_post_hook(copy_back)
    optimizer.register_state_dict_post_hook(store)
    optimizer.register_load_state_dict_pre_hook(load)
