"""Episodes of an agent as files for other packages.

groundlab export demonstrations --world BabyAI-GoToLocal-v0 --episodes 1000 --out out/demonstrations
groundlab export demonstrations --world BabyAI-GoToLocal-v0 --agent glam --checkpoint out/glam --out DIR
"""

from pathlib import Path
from typing import Annotated

import typer

from groundlab.cli import laboratory
from groundlab.cli.options import Seed, World
from groundlab.cli.printing import print_text
from groundlab.core.bounds import LAST_SEED
from groundlab.core.errors import GroundlabError

app = typer.Typer(no_args_is_help=True, help="Data for other packages.")
_MOST = 100_000  # episodes


@app.command()
def demonstrations(
    world: World,
    out: Annotated[Path, typer.Option("--out", help="A new folder for the files.")],
    episodes: Annotated[int, typer.Option("--episodes", min=1, max=_MOST, help="How many.")] = 100,
    agent: Annotated[
        str, typer.Option("--agent", help="bot, random, reflex, or the method of --checkpoint, such as glam.")
    ] = "bot",
    checkpoint: Annotated[Path | None, typer.Option("--checkpoint", help="Run folder of a trained agent.")] = None,
    first: Annotated[
        int, typer.Option("--first", min=0, help="Reset seed of the first episode; those below 1,000,000 are tests.")
    ] = 1_000_000,
    num_dists: Annotated[int | None, typer.Option("--num-dists", min=0, help="Distractors, if not its own.")] = None,
    seed: Seed = 0,
) -> None:
    """Write an agent's episodes as JSON lines: prompts, captions, images, actions, rewards, returns, seeds."""
    if checkpoint is not None:
        laboratory.require("groundlab export demonstrations --checkpoint")
    from groundlab.papers import demonstrations as played
    from groundlab.papers import registry

    played.check(out)
    if first + episodes - 1 > LAST_SEED:
        raise GroundlabError(f"the last reset seed would be {first + episodes - 1}; it is at most {LAST_SEED}")
    trained = registry.trained(checkpoint) if checkpoint else None
    layouts = range(first, first + episodes)
    card = played.export(out, played.play(world, layouts, agent, num_dists, seed, trained))
    succeeded = f"{card['successes']:,} of {card['episodes']:,} episodes succeed"
    print_text(
        f"{agent} in {world}: {succeeded}, {card['steps']:,} steps, mean return {card['return']:.3f}; wrote {out}"
    )
