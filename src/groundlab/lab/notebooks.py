"""Notebooks executed by papermill, which takes a misspelt parameter silently: names are checked before it starts."""

import json
import logging
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, first_line, unknown_name
from groundlab.lab.plan import duration
from groundlab.lab.progress import output_to, say

_KERNEL_START_SECONDS = 600  # a full machine or a cold network disk takes longer than Jupyter's minute


def run_notebook(notebook: Path, parameters: dict[str, Any], output: Path, home: Path | None = None) -> None:
    """Execute a notebook with parameters, in the folder `home`, and write the executed copy to `output`.

    One that fails leaves `.<name>` and its log there. Raises GroundlabError for a missing notebook, an unknown
    parameter (naming the nearest) and a failing cell.
    """
    check_parameters(notebook, parameters)
    partial = storage.make_folder(output.parent) / f".{output.name}"
    say(f"notebook {notebook.name}")
    began = time.monotonic()
    log = partial.with_suffix(".log")
    with output_to(log), ProcessPoolExecutor(1, get_context("spawn")) as child:  # Jupyter's threads end with it
        child.submit(_execute_notebook, notebook, parameters, partial, home).result()
    log.unlink(missing_ok=True)  # what kernels print about themselves matters only when something failed
    page = storage.read_json(partial)
    page["metadata"].pop("papermill", None)  # it names paths of this machine
    storage.write_atomic(output, json.dumps(page, indent=1, ensure_ascii=False) + "\n")
    partial.unlink()
    say(f"finished {notebook.name} after {duration(time.monotonic() - began)}")


def check_parameters(notebook: Path, parameters: dict[str, Any]) -> None:
    """Refuse parameters that the notebook's `parameters` cell does not name."""
    known = parameters_of(notebook)
    for name in parameters:
        if name not in known:
            raise unknown_name(f"parameter of {notebook.name}", name, known, "its cell tagged `parameters` lists all")


def parameters_of(notebook: Path) -> tuple[str, ...]:
    """The names in a notebook's `parameters` cell. Raises GroundlabError for a missing or broken notebook."""
    import papermill  # imports half of Jupyter: only when a notebook is run

    if not notebook.is_file():
        raise GroundlabError(f"notebook {notebook} does not exist; restore it (git checkout notebooks)")
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        return tuple(papermill.inspect_notebook(str(notebook)))
    except Exception as error:  # json, nbformat, jsonschema and papermill each raise their own
        problem = f"notebook {notebook} cannot be read ({first_line(error)[:200]})"
        raise GroundlabError(f"{problem}; mend it, or restore ours: git checkout notebooks") from None


def _execute_notebook(notebook: Path, parameters: dict[str, Any], output: Path, home: Path | None) -> None:
    import papermill
    from papermill.exceptions import PapermillExecutionError

    disk = storage.clear_disk_errors(output, storage.UNWRITABLE)
    try:
        with disk, tempfile.TemporaryDirectory(prefix="groundlab-profile-") as profile, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zmq and nbformat talk about their own futures
            papermill.execute_notebook(
                str(notebook),
                str(output),
                parameters,
                progress_bar=False,
                kernel_name="python3",
                kernel_manager_class=_kernel_of_ours(profile),
                start_timeout=_KERNEL_START_SECONDS,
                cwd=str(home) if home else None,
            )
    except PapermillExecutionError as error:
        cause = f"{error.ename}: {(error.evalue.strip().splitlines() or [''])[0]}"
        raise GroundlabError(f"{notebook.name} failed in cell {error.cell_index} ({cause}); see {output}") from None
    except RuntimeError as error:  # Jupyter's, for a kernel that died or did not start
        raise GroundlabError(f"{notebook.name}: {first_line(error)}; see {output.with_suffix('.log')}") from None


def _kernel_of_ours(profile: str) -> type:
    """Starts kernels with this interpreter, whatever Jupyter finds as python3, without start-up files of the user."""
    from ipykernel.kernelspec import make_ipkernel_cmd
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    options = [f"--ipython-dir={profile}", "--IPKernelApp.exec_PYTHONSTARTUP=False"]
    spec = KernelSpec(argv=make_ipkernel_cmd(extra_arguments=options), language="python")
    return type("OwnKernel", (AsyncKernelManager,), {"kernel_spec": spec})
