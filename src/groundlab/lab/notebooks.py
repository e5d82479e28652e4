"""Notebooks made into pages by papermill, in a separate process while runs go on.

    with PageProcess(environment) as pages:
        pages.begin([(notebook, parameters, output)])
        ...                                            # other runs
        pages.finish()                                 # GroundlabError where a notebook failed

papermill takes a misspelt parameter silently and runs with the defaults, so names are checked before it starts.
The process shares no memory with ours, so that its output, its environment and its end are its own.
"""

import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, first_line, unknown_name
from groundlab.lab.plan import duration
from groundlab.lab.progress import output_to, say

_LOOK_SECONDS = 0.1  # how often an end is looked for
_KERNEL_START_SECONDS = 600  # a full machine or a cold network disk takes longer than Jupyter's minute


class Page(NamedTuple):
    """A notebook, its parameters, and where its executed copy goes."""

    notebook: Path
    parameters: dict[str, Any]
    output: Path


class PageProcess:
    """Makes pages, those of one paper after those of another; leaving the block kills it."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """variables: what the notebooks find in their environment besides ours."""
        self._variables = variables or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._begun, self._made = 0, 0  # how often `begin` was called, and how much of that is done
        self._failure = ""

    def __enter__(self) -> "PageProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._listener.join()
            self._pipe.close()

    def begin(self, pages: Sequence[Page], prepare: Callable[[], None] | None = None) -> None:
        """Let it make these pages once those before are done; `prepare` is called there first."""
        if not self._process:
            from groundlab.lab.executor import start_child  # here, because it loads torch

            self._process, self._pipe = start_child("groundlab.lab.notebooks", {**os.environ, **self._variables})
            self._listener = threading.Thread(target=self._listen, daemon=True)
            self._listener.start()
        self._begun += 1
        with suppress(OSError):  # it died: the listener has noted it
            self._pipe.send((prepare, pages))

    def is_busy(self) -> bool:
        """Whether it makes pages at this moment."""
        return self._made < self._begun

    def finish(self) -> None:
        """Wait for all pages. Raises GroundlabError where one failed: a cell, a kernel, a full disk."""
        while self.is_busy():
            time.sleep(_LOOK_SECONDS)
        if self._failure:
            raise GroundlabError(self._failure)

    def _listen(self) -> None:
        """Say what the process tells, so that it does not break a progress view; keep how it ended."""
        try:
            while True:
                word, line = self._pipe.recv()
                if word == "say":
                    say(line)
                else:
                    self._failure = line
                    self._made += 1
        except (EOFError, OSError):
            self._failure = "the process that makes pages died; the same command makes them again"
            self._made = sys.maxsize


def serve(descriptor: int) -> None:
    """The life of a page process: take pages from the pipe and make them, until one fails; end with its parent.

    In: a call that comes first, and a list of `Page`. Out: `("say", line)` now and then, and for each list
    `("made", "" or the first error's line)`.
    """
    pipe, waiting = Connection(descriptor), SimpleQueue[Any]()
    threading.Thread(target=_receive, args=(pipe, waiting), daemon=True).start()
    failure = ""
    while True:
        prepare, pages = waiting.get()
        if not failure:
            failure = _failure_of(prepare, pages, tell=lambda line: pipe.send(("say", line)))
            if failure:  # runs may go on for hours
                pipe.send(("say", failure))
        pipe.send(("made", failure))


def _receive(pipe: Connection, waiting: SimpleQueue[Any]) -> None:
    """Take what is sent; the parent's end is ours, and kernels end with this process."""
    try:
        while True:
            waiting.put(pipe.recv())
    finally:
        os._exit(1)


def _failure_of(prepare: Callable[[], None] | None, pages: Sequence[Page], tell: Callable[[str], None]) -> str:
    """Make pages; returns what went wrong in one line, empty if nothing did. A fault of ours shows its traceback."""
    page = None
    try:
        if prepare:
            prepare()
        for page in pages:
            run_notebook(*page, tell=tell)
    except GroundlabError as error:
        return str(error)
    except Exception as error:
        traceback.print_exc()
        name = page.notebook.name if page else "collecting runs"
        return f"{name} failed: {type(error).__name__}: {first_line(error)}; report the lines above"
    return ""


def run_notebook(notebook: Path, parameters: dict[str, Any], output: Path, tell: Callable[[str], None] = say) -> Path:
    """Execute a notebook with parameters and write the executed copy to `output`.

    Raises GroundlabError for a missing notebook, an unknown parameter (naming the nearest) and a failing cell.
    """
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
        problem = f"notebook {notebook} cannot be read ({first_line(error)[:200]})"
        raise GroundlabError(f"{problem}; mend it, or restore ours: git checkout notebooks") from None


def _execute_notebook(notebook: Path, parameters: dict[str, Any], output: Path) -> None:
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
