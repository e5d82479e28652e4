"""Data from people checked against a pydantic schema, with one line that names the fix.

`parse` is the only door: config files (lab/config.py) and the settings of methods (methods/registry.py) go through it,
so a misspelt key is answered the same way everywhere.
"""

import re
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from groundlab.core.errors import GroundlabError, unknown_name

Schema = TypeVar("Schema", bound=BaseModel)


def parse(schema: type[Schema], data: Any, where: str) -> Schema:
    """`data` as an instance of `schema`; `where` (a file, or "settings of mediator") opens the error line.

    Raises GroundlabError for the first unknown key (naming the nearest valid one), missing key or ill-typed value.
    """
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        raise GroundlabError(f"{where}: {_explain(schema, error)}") from None


def _explain(schema: type[BaseModel], error: ValidationError) -> str:
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return _one_problem(schema, problems[0]) + more


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
    return f"{key}{reason}, not {problem['input']!r}"


def _dotted(location: tuple[str | int, ...]) -> str:
    """`("runs", 0, "seeds")` as people write it: `runs[0].seeds`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")


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
    """A schema that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def input_files(self) -> list[Path]:
        """The files that a run with these settings reads."""
        return []


def parse_layouts(text: str) -> list[int]:
    """The seeds of "0-99" or "7"; none for a range that runs backwards."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def _checked(text: str) -> str:
    if not re.fullmatch(r"\d+(-\d+)?", text) or not parse_layouts(text):
        raise ValueError("is no range: give first-last, as in 0-99, or one number")
    return text


Layouts = Annotated[str, AfterValidator(_checked)]
"""Test layouts, "first-last": the reset seeds of an evaluation."""
