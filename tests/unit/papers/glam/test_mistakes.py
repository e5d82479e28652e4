"""What a user of the agents gets wrong is told in one line, whichever agent it is."""

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec
from groundlab.papers import registry

from .conftest import WORLD

LM = ("glam", "npae", "zero-shot", "cloning")
SMALL = {
    "cloning": {"frames": 64, "held_out": 16, "batch_size": 16, "steps_per_record": 2},
    "symbolic": {"num_envs": 4, "frames_per_env": 6, "recurrence": 3, "batch_size": 12, "frames": 96},
}


def refused(tmp_path, method, **given) -> str:
    settings = registry.resolve_settings(method, WORLD, {"layouts": "0-1", **SMALL.get(method, {}), **given})
    with pytest.raises(GroundlabError) as caught:
        registry.execute(Run(tmp_path, RunSpec(method=method, world=WORLD, seed=0, settings=settings)))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("method", LM)
def test_an_unknown_model_names_the_command_that_fetches_it(method, tmp_path):
    line = refused(tmp_path, method, model="someone/flan-t6")
    assert line == "someone/flan-t6 is not on this machine; fetch it with: hf download someone/flan-t6"
