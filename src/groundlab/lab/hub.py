"""A trained agent on the Hugging Face hub: the folder that its run left, and a card that says what it is.

    print(card(folder))                              # folder: of `groundlab run glam --out FOLDER`
    push(folder, "me/my-agent", private=True)        # asks nothing; `groundlab model push` asks first

What goes there is the run's `model` (adapters in peft's own format or whole weights, tokenizer, heads), which a run of
`glam` gets here (`model export`), with the card as its README.md: method, world, seed, settings, success with its
interval, commit. Nothing else is sent.
"""

import os
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, HfApi, ModelCardData
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, first_line
from groundlab.core.yaml_files import dump_yaml
from groundlab.lab import run_folder
from groundlab.papers.glam.policy import VARIANTS
from groundlab.papers.glam.released_weights import export_agent
from groundlab.papers.reasoning.ppo import MODEL
from groundlab.papers.reasoning.settings import ADAPTER
from groundlab.report.statistics import success_of

CARD = "README.md"
_WRITES = "A language model tuned by nested PPO on its own words in a grid world (after Gandhi et al. 2025)"
_SCORES = "A language model that scores actions, tuned by PPO in a grid world (after GLAM, Carta et al. 2023)"


def export(folder: Path, out: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """(its folder, what `released.json` says) of the model of a finished run of `glam`; by default in the run's own.

    Raises GroundlabError for a folder without a finished run, and as `export_agent`.
    """
    _check_finished(folder)
    home = out or folder / MODEL
    return home, export_agent(folder, home)


def _check_finished(folder: Path) -> None:
    if run_folder.status_of(folder) != "finished":
        raise GroundlabError(f"{folder} holds no finished run; give the folder that `groundlab run --out` was given")


def model_files(folder: Path) -> list[Path]:
    """The files of a run's trained model that go to the hub, but for the card.

    Raises GroundlabError for a folder without a finished run that left a model.
    """
    _check_finished(folder)
    if (run_folder.read_manifest(folder) or {}).get("method") in VARIANTS:
        export(folder)
    found = [file for file in sorted((folder / MODEL).rglob("*")) if file.is_file() and file.name != CARD]
    if not found:
        raise GroundlabError(f"{folder} holds no model for the hub; give a run of `reasoning`, `direct` or `glam`")
    return found


def card(folder: Path) -> str:
    """The model's card, in Markdown with the hub's header, from the manifest and the evaluation of its run."""
    manifest = run_folder.read_manifest(folder)
    if manifest is None:
        raise GroundlabError(f"{folder} holds no run; give the folder that `groundlab run --out` was given")
    evaluations = storage.read_json(folder / "evaluation.json")
    commit, changed = manifest["git"]["commit"], manifest["git"]["dirty"]
    return "\n".join(
        [
            f"---\n{_header(folder, manifest)}\n---\n",
            f"# {manifest['method']} on {manifest['world']}, seed {manifest['seed']}",
            "",
            f"{_SCORES if manifest['method'] in VARIANTS else _WRITES}, by",
            f"groundlab {manifest['packages']['groundlab']}, commit {commit or 'unknown'}"
            f"{' with changes' if changed else ''}.",
            f"Run {manifest['hash']}, base model {_base(manifest)}, on {manifest['hardware']['cpu']}"
            f"{', ' + gpu if (gpu := manifest['hardware']['gpu']) else ''}, Python {manifest['python']}.",
            "",
            "| evaluation | episodes | success | 95 % interval, over episodes |",
            "|---|---|---|---|",
            *(_measured(result) for result in evaluations if result["rows"]),
            "",
            "One seed: the intervals say nothing of how another training run would have ended.",
            "",
            "```yaml",
            f"{dump_yaml(manifest['settings'])}```",
            "",
        ]
    )


def _header(folder: Path, manifest: dict[str, Any]) -> ModelCardData:
    """What the hub reads: the library, and the base model where it is one of the hub's."""
    adapted, base = (folder / MODEL / ADAPTER).is_file(), _base(manifest)
    named = base if base.count("/") == 1 and not Path(base).is_absolute() else None
    library = "peft" if adapted else "transformers"
    return ModelCardData(library_name=library, base_model=named, tags=["reinforcement-learning", "groundlab"])


def _base(manifest: dict[str, Any]) -> str:
    """The name of the base model; of a folder on this machine its last part only."""
    given = str(manifest["settings"]["model"])
    return Path(given).name if Path(given).exists() else given


def _measured(result: dict[str, Any]) -> str:
    found = success_of(result["rows"])
    value, low, high = (f"{number:.0f} %" for number in (found.value, found.low, found.high))
    return f"| {result['policy']} | {len(result['rows'])} | {value} | {low} to {high} |"


def push(folder: Path, repo: str, private: bool = False, api: HfApi | None = None) -> str:
    """Upload files and card in one commit, to a repository that is made where there is none; returns its address.

    api: the hub and the account; by default those of the environment (HF_ENDPOINT, HF_TOKEN, `hf auth login`).
    Raises GroundlabError, in one line, for what the hub or the network refuses.
    """
    api = api or HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    home = folder / MODEL
    operations = [CommitOperationAdd(file.relative_to(home).as_posix(), str(file)) for file in model_files(folder)]
    operations.append(CommitOperationAdd(CARD, card(folder).encode()))
    try:
        api.create_repo(repo, private=private, exist_ok=True)
        api.create_commit(repo, operations, commit_message=f"groundlab run {run_folder.read_manifest(folder)['hash']}")  # type: ignore[index]
    except OfflineModeIsEnabled:
        raise GroundlabError("HF_HUB_OFFLINE is set; unset it to upload") from None
    except LocalTokenNotFoundError:
        raise _no_token() from None
    except HFValidationError as error:
        raise GroundlabError(f"{repo} is no name on the hub ({error}); give ACCOUNT/NAME") from None
    except HfHubHTTPError as error:
        if error.response is not None and error.response.status_code in (401, 403):
            raise _no_token() from None
        why = first_line(error)
        raise GroundlabError(f"the hub refused {repo} ({why}); correct what it names, or try again later") from None
    except Exception as error:  # what the client's HTTP library raises without a network has changed between versions
        raise GroundlabError(f"{api.endpoint} is out of reach ({first_line(error)}); try with a network") from None
    return f"{api.endpoint}/{repo}"


def _no_token() -> GroundlabError:
    return GroundlabError("the hub asks for an account that may write there: hf auth login, or set HF_TOKEN")
