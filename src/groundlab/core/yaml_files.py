"""The one reader of YAML: configs, claims, recipes, the config.yaml of a run, Slurm's settings, `--set KEY=VALUE`.

    read_yaml(Path("configs/glam/quick.yaml"))       plain values; else one line that names the file and the fix
    parse_yaml("[1, 2]", "--set tests")

Damage is one GroundlabError: no UTF-8, no YAML, an unknown tag, a key given twice. Words of YAML 1.1 that surprise stay
text: `1:30` (else 90), `yes` and `no` (else true and false), `010` (else 8), `2026-11-22` (else a date); schemas read
what they need from them.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from groundlab.core.errors import GroundlabError, clip, first_line

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, where it was built in: eight times as fast
_TAG = "tag:yaml.org,2002:"
_MOST_OPENINGS = 10_000  # of one kind in a file; a config has under a thousand


class _Loader(_BASE):
    """Plain values only; each of them is read as in YAML 1.1, or stays text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - as its base declares it


def _mapping(loader: Any, node: yaml.MappingNode) -> Any:
    """A mapping whose own keys differ; those that `<<` takes over may be given again."""
    own = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    if len(own) != len(set(own)):
        twice = next(value for place, (_, value) in enumerate(own) if own[place] in own[:place])
        raise ValueError(f"the key {clip(repr(twice))} is given twice")
    return loader.construct_yaml_map(node)


_Loader.add_constructor(_TAG + "map", _mapping)
for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
              r"|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)", "-+0123456789."),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", r"<<", "<"),
):  # fmt: skip
    _Loader.add_implicit_resolver(
        _TAG + _name, re.compile(f"^(?:{_pattern})$"), [letter.strip("\0") for letter in _first]
    )


def parse_yaml(text: str, where: str, fix: str = "correct the file") -> Any:
    """The value of a YAML text. `where` opens the error line and `fix` ends it.

    Raises GroundlabError, in one line, for anything but plain values.
    """
    try:
        if max(text.count(opening) for opening in ("[", "{", "- -", "? ?")) > _MOST_OPENINGS:
            raise ValueError("its values may be nested too deep")  # at a few ten thousand libyaml ends the process
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        at = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = " ".join(part for part in (error.problem, error.context) if part)
        reason = f"is not valid YAML{at}: {clip(problem, 160)}"
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError, TypeError) as error:
        reason = f"is not valid YAML: {clip(first_line(error), 160)}"
    raise GroundlabError(f"{where} {reason}; {fix}")


def read_yaml(path: Path, where: str | None = None, fix: str = "correct the file") -> Any:
    """The value of a YAML file; `where` is its name in the error line, by default its path.

    Raises GroundlabError for a missing or unreadable file, one that is no UTF-8 text, and as `parse_yaml`.
    """
    where = where or clip(str(path), 200)
    try:
        if path.exists() and not path.is_file():
            raise GroundlabError(f"{where} is no file; name a YAML file")
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise GroundlabError(f"{where} does not exist; name a YAML file") from None
    except OSError as error:
        raise GroundlabError(f"{where} cannot be read ({error.strerror}); name another file, or mend it") from None
    except ValueError:  # UnicodeDecodeError; a path with a NUL
        raise GroundlabError(f"{where} is no UTF-8 text; save it as UTF-8, or name another file") from None
    return parse_yaml(text, where, fix)


def dump_yaml(value: Any) -> str:
    """Plain values as YAML with sorted keys, which `parse_yaml` reads back as they were."""
    return yaml.safe_dump(value, sort_keys=True)
