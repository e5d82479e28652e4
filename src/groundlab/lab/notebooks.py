"""Notebooks made into pages by papermill, in a separate process while the next paper's runs go on.

    with PageProcess() as pages:
        pages.begin([(notebook, parameters, output)], environment)
        ...                                            # the next paper's runs
        pages.finish()                                 # GroundlabError where a notebook failed

papermill takes a misspelt parameter silently and runs with the defaults, so names are checked before it starts.
The process shares no memory with ours, so that its output, its environment and its end are its own.
"""

import logging
import os
import subprocess
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, first_line, unknown_name
from groundlab.lab.plan import duration
from groundlab.lab.progress import say

_KERNEL_START_SECONDS = 600  # a full machine or a cold network disk takes longer than Jupyter's minute


class Page(NamedTuple):
    """A notebook, its parameters, and where its executed copy goes."""

    notebook: Path
    parameters: dict[str, Any]
    output: Path


class PageProcess:
    """Makes the pages of one paper at a time; its end is awaited by `finish`, and leaving the block kills it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._listener = threading.Thread()
        self._failure = ""

    def __enter__(self) -> "PageProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.kill()
            self._end()

    def begin(self, pages: Sequence[Page], variables: Mapping[str, str]) -> None:
        """Start on these pages, with these environment variables besides ours, after those before are done."""
        from groundlab.lab.executor import start_child  # here, because it loads torch

        self.finish()
        self._process, pipe = start_child("groundlab.lab.notebooks", {**os.environ, **variables})
        self._failure = "the process that makes pages died; the same command makes them again"
        self._listener = threading.Thread(target=self._listen, args=(pipe, list(pages)), daemon=True)
        self._listener.start()

    def finish(self) -> None:
        """Wait for the pages. Raises GroundlabError where one failed: a cell, a kernel, a full disk."""
        if self._process:
            self._listener.join()
            self._end()
            if self._failure:
                raise GroundlabError(self._failure)

    def _end(self) -> None:
        assert self._process
        self._process.wait()
        self._listener.join()
        self._process = None

    def _listen(self, pipe: Connection, pages: list[Page]) -> None:
        """Say what the process tells, so that it does not break a progress view; keep how it ended."""
        with pipe:
            try:
                pipe.send(pages)
                while True:
                    word, line = pipe.recv()
                    if word == "say":
                        say(line)
                    else:
                        self._failure = line
                        return
            except (EOFError, OSError):
                return


def serve(descriptor: int) -> None:
    """The life of a page process: take pages from the pipe, make them, say how that ended; end with its parent.

    In: a list of `Page`. Out: `("say", line)` now and then, at the end `("done", "" or an error's line)`.
    """
    pipe = Connection(descriptor)
    pages: list[Page] = pipe.recv()
    threading.Thread(target=_end_with_parent, args=(pipe,), daemon=True).start()
    failures = (_failure_of(page, tell=lambda line: pipe.send(("say", line))) for page in pages)
    pipe.send(("done", next((failure for failure in failures if failure), "")))


def _failure_of(page: Page, tell: Callable[[str], None]) -> str:
    """Make a page; returns what went wrong in one line, empty if nothing did. A fault of ours shows its traceback."""
    try:
        run_notebook(*page, tell=tell)
    except GroundlabError as error:
        return str(error)
    except Exception as error:
        traceback.print_exc()
        return f"{page.notebook.name} failed: {type(error).__name__}: {first_line(error)}; report the lines above"
    return ""


def _end_with_parent(pipe: Connection) -> None:
    """Nothing more is sent to us: what can be read is the parent's end. Kernels end with this process."""
    pipe.poll(None)
    os._exit(1)


def run_notebook(notebook: Path, parameters: dict[str, Any], output: Path, tell: Callable[[str], None] = say) -> Path:
    """Execute a notebook with parameters and write the executed copy to `output`.

    Raises GroundlabError for a missing notebook, an unknown parameter (naming the nearest) and a failing cell.
    """
    from groundlab.lab.worker import output_to  # here, because workers' code loads torch

    check_parameters(notebook, parameters)
    storage.make_folder(output.parent)
    tell(f"notebook {notebook.name}")
    began = time.monotonic()
    log = output.with_suffix(".log")
    with output_to(log):
        _execute_notebook(notebook, parameters, output)
    log.unlink(missing_ok=True)  # what kernels print about themselves matters only when something failed
    tell(f"finished {notebook.name} after {duration(time.monotonic() - began)}")
    return output


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
        raise GroundlabError(
            f"notebook {notebook} cannot be read ({first_line(error)[:200]}); restore it (git checkout notebooks)"
        ) from None


def _execute_notebook(notebook: Path, parameters: dict[str, Any], output: Path) -> None:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    try:
        with storage.clear_disk_errors(output, storage.UNWRITABLE), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zmq and nbformat talk about their own futures
            papermill.execute_notebook(
                str(notebook),
                str(output),
                parameters,
                progress_bar=False,
                kernel_name="python3",
                start_timeout=_KERNEL_START_SECONDS,
            )
    except PapermillExecutionError as error:
        cause = f"{error.ename}: {(error.evalue.strip().splitlines() or [''])[0]}"
        raise GroundlabError(f"{notebook.name} failed in cell {error.cell_index} ({cause}); see {output}") from None
    except DeadKernelError:
        raise GroundlabError(
            f"{notebook.name}: its kernel died; see {output} and {output.with_suffix('.log')}"
        ) from None
    except RuntimeError as error:
        if "Kernel didn't respond" not in str(error):  # Jupyter has no class of its own for it
            raise
        limit = duration(_KERNEL_START_SECONDS)
        raise GroundlabError(
            f"{notebook.name}: its kernel did not start within {limit}; try again when the machine is less busy"
        ) from None
