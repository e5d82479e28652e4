"""Data from people checked against a pydantic schema, with one line that names the fix.

`parse` is the only door: config files (lab/config.py) and the settings of methods (papers/registry.py) go through it,
so a misspelt key is answered the same way everywhere. `describe` tells what a schema holds, for people.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from groundlab.core.bounds import LAST_SEED, MOST_LAYOUTS
from groundlab.core.errors import GroundlabError, clip, shown_value, unknown_name

Schema = TypeVar("Schema", bound=BaseModel)


def parse(schema: type[Schema], data: Any, where: str) -> Schema:
    """`data` as an instance of `schema`; `where` (a file, or "settings of mediator") opens the error line.

    Raises GroundlabError for the first unknown key (naming the nearest valid one), missing key or ill-typed value.
    """
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise GroundlabError(f"{where}: {_one_problem(schema, problems[0])}{more}") from None


def _one_problem(schema: type[BaseModel], problem: Any) -> str:
    location = problem["loc"]
    if problem["type"] == "extra_forbidden":
        known = _keys_at(schema, location[:-1])
        inside = f"key in {_dotted(location[:-1])}" if len(location) > 1 else "key"
        return str(unknown_name(inside, str(location[-1]), known))
    if problem["type"] == "missing":
        return f"key {_dotted(location)!r} is missing"
    if problem["type"] in ("literal_error", "enum"):
        allowed = re.findall(r"'([^']*)'", problem["ctx"]["expected"])
        return str(unknown_name(f"value of {_dotted(location)}", str(problem["input"]), allowed))
    reason = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be").split(", unable to")[0]
    key = f"{_dotted(location)} " if location else ""
    return f"{key}{clip(reason, 200)}, not {shown_value(problem['input'])}"


def _dotted(location: tuple[str | int, ...]) -> str:
    """`("runs", 0, "seeds")` as people write it: `runs[0].seeds`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return clip(text.removeprefix("."))


def _keys_at(schema: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """The valid keys of the schema that sits at `location` inside `schema`."""
    for part in location:
        if isinstance(part, str) and part in schema.model_fields:
            schema = _nested_schema(schema.model_fields[part].annotation) or schema
    return [field.alias or name for name, field in schema.model_fields.items()]


def _nested_schema(annotation: Any) -> type[BaseModel] | None:
    """The schema inside an annotation such as `list[Entry]` or `Estimate | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_nested_schema(argument) for argument in get_args(annotation))
    return next((nested for nested in found if nested), None)


class Strict(BaseModel):
    """A schema that refuses keys it does not know, and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    former_names: ClassVar[dict[str, str]] = {}
    """Former names of settings, each with today's: data and stored results may use either."""

    @model_validator(mode="before")
    @classmethod
    def _accept_former_names(cls, data: Any) -> Any:
        if not cls.former_names or not isinstance(data, dict):
            return data
        return {cls.former_names.get(key, key): value for key, value in data.items()}

    def inputs(self) -> Mapping[str, Path | bytes | str]:
        """Return what a run with these settings reads, by role: a file, the part that counts, or a SHA-256 (str).

        A role begins with the setting that names the file (`model/config.json`). The content then names the run in the
        place of that setting's value.
        """
        return {}


def first_names(settings: BaseModel, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of some of the settings under the first names that these had (`Strict.former_names`)."""
    first = {new: old for old, new in reversed(getattr(settings, "former_names", {}).items())}
    parts = {name: getattr(settings, name, None) for name in values}
    inner = {name: first_names(part, values[name]) for name, part in parts.items() if isinstance(part, BaseModel)}
    return {first.get(name, name): value for name, value in (dict(values) | inner).items()}


def known_part(schema: type[BaseModel], stored: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored settings without those that the schema no longer has and that were at their default.

    stored: all settings of a run; changed: those that differed from their defaults when it was made.
    """
    fields = {field.alias or name: field.annotation for name, field in schema.model_fields.items()}
    fields |= {old: fields[new] for old, new in getattr(schema, "former_names", {}).items()}
    known = {name: value for name, value in stored.items() if name in fields or name in changed}
    inner = {name: _nested_schema(fields.get(name)) for name, value in known.items() if isinstance(value, dict)}
    parts = {name: known_part(part, known[name], changed.get(name) or {}) for name, part in inner.items() if part}
    return known | parts


def parse_layouts(text: str) -> list[int]:
    """The seeds of "0-99" or "7"; none for a range that runs backwards."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def _checked(text: str) -> str:
    numbers = re.fullmatch(r"([0-9]{1,20})(?:-([0-9]{1,20}))?", text)
    first, last = (int(each or numbers[1]) for each in numbers.groups()) if numbers else (1, 0)
    if first > last:
        raise ValueError("is no range: give first-last, as in 0-99, or one number")
    if last > LAST_SEED:
        raise ValueError(f"goes beyond the last layout, {LAST_SEED}")
    if last - first >= MOST_LAYOUTS:
        raise ValueError(f"names {last - first + 1} layouts; give at most {MOST_LAYOUTS:,}, as in 0-99")
    return text


Layouts = Annotated[str, AfterValidator(_checked)]
"""Test layouts, "first-last": the reset seeds of an evaluation."""


def _device(name: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", name):
        raise ValueError("is no device: give cpu, cuda, or cuda:N")
    return name


Device = Annotated[str, AfterValidator(_device)]
"""Where a network is: cpu, cuda, or cuda:N. Whether this machine has it is asked when a run starts."""


class FieldRow(NamedTuple):
    """One key of a schema, in words."""

    name: str
    """With the keys that it lies in: `fidelity.dropout`."""
    type: str
    default: str
    meaning: str
    """The docstring below the field; empty where it has none."""


def describe(schema: type[BaseModel], prefix: str = "") -> list[FieldRow]:
    """Every key of a schema, nested ones after the key that holds them."""
    rows = []
    for name, field in schema.model_fields.items():
        key, inner = prefix + (field.alias or name), field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            rows += describe(inner, f"{key}.")
        else:
            default = "required" if field.is_required() else shown(field.get_default(call_default_factory=True))
            rows.append(FieldRow(key, _type_name(field), default, _meaning(schema, name)))
    return rows


def shown(value: Any) -> str:
    """A value as people write it after `--set key=`; of a long list how many there are."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, list | tuple) and len(value) > 3:
        return f"({len(value)} values)"
    return ", ".join(map(shown, value)) if isinstance(value, list | tuple) else str(value)


def _type_name(field: FieldInfo) -> str:
    """`int >= 1`, `strict | lenient`, `text or none`."""
    marks = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = [
        f"{mark} {getattr(each, key)}" for each in field.metadata for key, mark in marks.items() if hasattr(each, key)
    ]
    return " ".join([_named(field.annotation), ", ".join(bounds)]).strip()


def _named(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _named(parts[0])
    if origin is Literal:
        return " | ".join(map(str, parts))
    if origin in (Union, UnionType):
        return " or ".join("none" if part is type(None) else _named(part) for part in parts)
    if origin in (list, tuple, dict):
        return f"{origin.__name__} of {_named(parts[-1])}"
    return {str: "text", bool: "true | false"}.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _meaning(schema: type[BaseModel], field: str) -> str:
    """The docstring below a field; of one that a class declares again without any, that of the class it extends."""
    owners = (owner for owner in schema.__mro__ if issubclass(owner, BaseModel) and field in owner.model_fields)
    texts = (owner.model_fields[field].description for owner in owners)
    return " ".join(next(filter(None, texts), "").split())
