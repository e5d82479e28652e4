"""Notebooks run as pages: papermill with checked parameter names, quiet kernels and errors of one line.

papermill takes a misspelt parameter silently and runs with the defaults, so names are checked before it starts.
"""

import logging
import time
import warnings
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.lab.plan import duration
from groundlab.lab.progress import say
from groundlab.lab.worker import output_to


def run_notebook(notebook: Path, parameters: dict[str, Any], output: Path) -> Path:
    """Execute a notebook with parameters and write the executed copy to `output`.

    Raises GroundlabError for a missing notebook, an unknown parameter (naming the nearest) and a failing cell.
    """
    check_parameters(notebook, parameters)
    storage.make_folder(output.parent)
    say(f"notebook {notebook.name}")
    began = time.monotonic()
    log = output.with_suffix(".log")
    with output_to(log):
        _execute(notebook, parameters, output)
    log.unlink(missing_ok=True)  # what kernels print about themselves matters only when something failed
    say(f"finished {notebook.name} after {duration(time.monotonic() - began)}")
    return output


def check_parameters(notebook: Path, parameters: dict[str, Any]) -> None:
    """Refuse parameters that the notebook's `parameters` cell does not name."""
    import papermill  # imports half of Jupyter: only when a notebook is run

    if not notebook.is_file():
        raise GroundlabError(f"notebook {notebook} does not exist; restore it (git checkout notebooks)")
    logging.getLogger("papermill").setLevel(logging.ERROR)
    known = papermill.inspect_notebook(str(notebook))
    for name in parameters:
        if name not in known:
            raise unknown_name(f"parameter of {notebook.name}", name, known, "its cell tagged `parameters` lists all")


def _execute(notebook: Path, parameters: dict[str, Any], output: Path) -> None:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    try:
        with storage.clear_disk_errors(output), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zmq and nbformat talk about their own futures
            papermill.execute_notebook(
                str(notebook), str(output), parameters, progress_bar=False, kernel_name="python3"
            )
    except PapermillExecutionError as error:
        cause = f"{error.ename}: {(error.evalue.strip().splitlines() or [''])[0]}"
        raise GroundlabError(f"{notebook.name} failed in cell {error.cell_index} ({cause}); see {output}") from None
    except DeadKernelError:
        raise GroundlabError(
            f"{notebook.name}: its kernel died; see {output} and {output.with_suffix('.log')}"
        ) from None
