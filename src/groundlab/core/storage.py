"""Files that are whole or absent: atomic writes, and JSON lines that survive a kill in mid-line.

A file is written beside its place and renamed into it, so a reader never sees half of one, and a full disk
loses nothing that was there before. `digest_json` and its like name runs by content and recognise broken files.
"""

import errno
import hashlib
import json
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groundlab.core.errors import GroundlabError, clip, first_line

_FIX = "make room or set permissions there, or choose another place (--results or --out; in a notebook folder=)"
UNWRITABLE: frozenset[int | None] = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})
"""Errnos that a folder which was made before answers with once it is full, or no longer to be written to."""


@contextmanager
def clear_disk_errors(path: Path, only: Container[int | None] | None = None) -> Iterator[None]:
    """Turn a refusal by the file system into one line that says what to do; `only`: of these errnos, others pass."""
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        reason = error.strerror or first_line(error)
        raise GroundlabError(f"cannot write {clip(str(path), 200)}: {reason}; {_FIX}") from error


def make_folder(path: Path) -> Path:
    """Create a folder and its parents; raises GroundlabError where the file system refuses."""
    with clear_disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def check_writable(path: Path) -> None:
    """Raises GroundlabError where a file or folder could not be made at `path`; makes nothing."""
    with clear_disk_errors(path):
        home = next(folder for folder in (path, *path.absolute().parents) if os.path.lexists(folder))
        if not home.is_dir():
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(home, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def check_file(path: Path) -> None:
    """Raises GroundlabError where no file can be written at `path`, which a command would learn only at its end."""
    with clear_disk_errors(path):
        _refuse_device(path)
        if path.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        make_folder(path.parent)
    check_writable(path.parent)


def _refuse_device(path: Path) -> None:
    """A whole file is renamed into its place, which would put it there instead of a device or a pipe."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise GroundlabError(f"{clip(str(path), 200)} is a device or a pipe; name a file")


class LazyFile(ABC):
    """Content of a file, produced while it is written; `bytes(file)` is all of it."""

    @abstractmethod
    def parts(self) -> Iterator[bytes | memoryview]:
        """The content, piece by piece."""

    def __bytes__(self) -> bytes:
        return b"".join(self.parts())


def write_atomic(path: Path, data: bytes | str | LazyFile) -> str:
    """Write a whole file or nothing: a temporary neighbour is flushed to disk, then renamed over `path`.

    Nobody can foresee the neighbour's name, so nobody can put a link there. Returns the content's digest, as
    `digest_bytes` gives it.
    """
    payload = [data.encode()] if isinstance(data, str) else [data] if isinstance(data, bytes) else data.parts()
    digest = hashlib.sha256()
    make_folder(path.parent)
    with clear_disk_errors(path):
        _refuse_device(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                for part in payload:
                    file.write(part)
                    digest.update(part)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    return digest.hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically; keys keep their order, what holds no lists is one line."""
    write_atomic(path, _lines(value) + "\n")


def _lines(value: Any, depth: int = 0) -> str:
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    if not any(isinstance(part, dict | list | tuple) for part in parts):
        return json.dumps(value, ensure_ascii=False)
    inner, outer = "\n" + " " * (depth + 1), "\n" + " " * depth
    texts = [_lines(part, depth + 1) for part in parts]
    if isinstance(value, dict):
        names = [json.dumps(str(name), ensure_ascii=False) for name in value]
        texts = [f"{name}: {text}" for name, text in zip(names, texts, strict=True)]
    left, right = "{}" if isinstance(value, dict) else "[]"
    return left + inner + f",{inner}".join(texts) + outer + right


def read_json(path: Path) -> Any:
    """The value stored in a JSON file. Raises GroundlabError when the file is missing or broken."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise GroundlabError(f"{path} does not exist") from None
    except OSError as error:
        raise GroundlabError(f"{path} cannot be read ({error.strerror}); mend it, or name another folder") from None
    except (ValueError, RecursionError) as error:  # broken JSON or text; 5,000 digits; brackets without end
        reason = clip(first_line(error), 160)
        raise GroundlabError(f"{path} is not valid JSON ({reason}); delete it and run the same command again") from None


def append_line(path: Path, record: dict, after: str = "") -> None:
    """Append one JSON object as one line, in a single write; `after` stands before it."""
    line = after + json.dumps(record, ensure_ascii=False, separators=(", ", ": ")) + "\n"
    with clear_disk_errors(path), path.open("ab") as file:
        file.write(line.encode())


def read_lines(path: Path) -> list[dict]:
    """All records of a JSON-lines file; a last line cut short by a kill is left out, any other broken line raises."""
    return parse_lines(path.read_bytes(), str(path)) if path.exists() else []


def parse_lines(content: bytes, name: str) -> list[dict]:
    """All records of JSON lines, as `read_lines`; name: what an error calls them."""
    lines = content.split(b"\n")
    records = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError):
            raise GroundlabError(f"{name}:{number} is not valid JSON; delete that line and run again") from None
    return records


def truncate(path: Path, size: int) -> None:
    """Cut a file to `size` bytes (0 for a file that is not there yet). Raises GroundlabError when it is shorter."""
    have = path.stat().st_size if path.exists() else 0
    if have < size:
        raise GroundlabError(f"{path} has {have} bytes, its checkpoint expects {size}; delete the run folder and rerun")
    if have > size:
        with clear_disk_errors(path):
            os.truncate(path, size)


def digest_bytes(data: bytes) -> str:
    """SHA-256 of bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Any) -> str:
    """SHA-256 of the canonical JSON text of `value` (sorted keys, no spaces)."""
    return digest_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def digest_files(files: Iterable[Path], root: Path) -> str:
    """SHA-256 over the names (relative to `root`) and contents of `files`, whatever their order."""
    entries = sorted((file.relative_to(root).as_posix(), digest_bytes(file.read_bytes())) for file in files)
    return digest_json(entries)
