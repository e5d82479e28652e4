"""The code that a module runs, as a digest that outlives moves, merges, comments, docstrings and reordered imports.

    digest(["groundlab.papers.glam.ppo"], {"groundlab": Path("src/groundlab")})

The import closure of a module holds every module of the given packages that it imports, at any depth: at the top of a
file, inside a function, or named by a string (`"groundlab.worlds.single:GridEnv"`, `"vllm_worker.py"` for a neighbour).
Imports under `if TYPE_CHECKING` do not count. Of each file the top-level statements are taken, without comments,
docstrings and imports; the digest is over the sorted set of their hashes.

A statement's hash covers its syntax tree and what its names mean: the statement that defines a name, wherever it
stands, or the outside package that it comes from. `module.name` counts as `name`, so a function may change its module.
Not seen is the order of the statements of a file: nothing may depend on it. A merge of two files changes the digest of
those modules only that imported one of them and not the other.

Left out are tables of worlds and methods, because a run's hash holds the rows that it uses: what is called `WORLDS` or
`PAPER`, what a module names in `HASHED_BY_ROW`, and private names that only such tables use. So are names like
`__all__` and `__version__`.

Only the standard library is used, and Python 3.11, 3.12 and 3.13 give the same digest. grimp draws the same graph from
import statements alone: of the 91 modules in the closure of `glam` it misses the 20 that strings name, the building of
rooms among them. Each file has to be parsed for its statements in any case.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

_MARK = "HASHED_BY_ROW"
_TABLES = {"WORLDS", "PAPER", _MARK}
_DUNDER = re.compile("__(?!getattr__$).*__")  # `__getattr__` imports what a module offers late
_NO_CONTENT = {"ctx", "kind", "type_comment"}  # fields of syntax nodes that change nothing
_MODULE = re.compile(r"(\w+(?:\.\w+)+)(?::\w+)?")  # `package.module` or `package.module:name`


class Import(NamedTuple):
    """`from module import name as alias`; `name` is empty for `import module as alias`."""

    module: str
    name: str
    alias: str

    @property
    def path(self) -> str:
        """The dotted name of what is imported."""
        return f"{self.module}.{self.name}" if self.name else self.module


class Source(NamedTuple):
    """One file: what it imports, the modules that its strings may name, and the statements that are hashed."""

    imports: tuple[Import, ...]
    named: frozenset[str]
    statements: tuple[ast.stmt, ...]


class Statement(NamedTuple):
    """A top-level statement: what it defines, its own hash, and the names it uses, as (module alias or "", name)."""

    defines: frozenset[str]
    plain: str
    uses: frozenset[tuple[str, str]]


Packages = Mapping[str, Path]
"""The folders of the packages whose modules are followed, by name."""


def digest(starts: Iterable[str], packages: Packages) -> str:
    """SHA-256 over the statements of the import closure of some modules.

    Raises FileNotFoundError for a start that is no module of the packages.
    """
    return _digest(tuple((name, parse(name, file)) for name, file in closure(starts, packages).items()))


def closure(starts: Iterable[str], packages: Packages) -> dict[str, Path]:
    """The files of the modules that `starts` import, at any depth, by module name and in the order of the names."""
    files: dict[str, Path] = {}
    queue = list(starts)
    for start in queue:
        if _file(start, packages) is None:
            raise FileNotFoundError(f"there is no module {start}")
    while queue:
        name = queue.pop()
        file = _file(name, packages)
        if file is not None and name not in files:
            files[name] = file
            source = parse(name, file)
            queue += [name.rpartition(".")[0], *source.named]
            queue += [found for each in source.imports for found in (each.module, each.path)]
    return dict(sorted(files.items()))


def _file(module: str, packages: Packages) -> Path | None:
    first, *rest = module.split(".")
    if first not in packages:
        return None
    place = packages[first].joinpath(*rest)
    return next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()), None)


def parse(module: str, file: Path) -> Source:
    """The content of a file; a file that has not changed is not parsed again."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    return _parse(file.read_text(encoding="utf-8"), package)


@cache
def _parse(text: str, package: str) -> Source:
    kept = _without_tables(_Stripper().visit(ast.parse(text)).body)
    nodes = [node for statement in kept for node in ast.walk(statement)]
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return Source(
        imports=tuple(each for node in nodes for each in _imports(node, package)),
        named=frozenset(name for text in strings for name in _named_modules(text, package)),
        statements=tuple(node for node in kept if not isinstance(node, ast.Import | ast.ImportFrom)),
    )


class _Stripper(ast.NodeTransformer):
    """Takes out docstrings, those of attributes too, and what only type checkers read."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_docstring = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_docstring else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[Any]:
        self.generic_visit(node)
        return node.orelse if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING") else node


def _defined(node: ast.AST) -> frozenset[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset([node.name])
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return frozenset(part.id for each in targets for part in ast.walk(each) if isinstance(part, ast.Name))
    inner = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.ExceptHandler))
    return frozenset(name for child in inner for name in _defined(child))


def _without_tables(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements but for tables, dunder names, and private definitions that only tables use."""
    marked = (ast.literal_eval(node.value) for node in body if isinstance(node, ast.Assign) and _MARK in _defined(node))
    tables = _TABLES.union(*marked)
    is_table = {name: name in tables or bool(_DUNDER.fullmatch(name)) for node in body for name in _defined(node)}
    out = [node for node in body if _defined(node) and all(is_table[name] for name in _defined(node))]
    kept = [node for node in body if node not in out]
    while True:
        helpers = {name for name in _names(out) if name.startswith("_")} - _names(kept)
        more = [node for node in kept if _defined(node) and _defined(node) <= helpers]
        if not more:
            return kept
        out, kept = [*out, *more], [node for node in kept if node not in more]


def _names(statements: list[ast.stmt]) -> set[str]:
    """The names that statements read."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _imports(node: ast.AST, package: str) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for name in node.names:
            path = name.name if name.asname else name.name.partition(".")[0]
            yield Import(path, "", name.asname or path)
            yield Import(name.name, "", "")  # `import a.b` gives the name `a`, and runs `a.b`
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        for name in node.names:
            yield Import(module, name.name, name.asname or name.name)


def _named_modules(text: str, package: str) -> Iterator[str]:
    if match := _MODULE.fullmatch(text):
        yield match[1]
        if text.count(".") == 1 and text.endswith(".py"):
            yield f"{package}.{text.removesuffix('.py')}"


@cache
def _digest(sources: tuple[tuple[str, Source], ...]) -> str:
    names = _Names(dict(sources))
    hashes = {names.hash_of(module, each) for module, own in names.statements.items() for each in own}
    return _sha(*sorted(hashes))


class _Names:
    """What names mean in each module of a closure."""

    def __init__(self, sources: dict[str, Source]):
        self.statements: dict[str, list[Statement]] = {}
        self._defined: dict[str, dict[str, list[str]]] = {}
        self._imported: dict[str, dict[str, list[Import]]] = {}
        for module, source in sources.items():
            aliases = frozenset(each.alias for each in source.imports if each.path in sources)
            self.statements[module] = own = [_statement(node, aliases) for node in source.statements]
            self._defined[module] = _grouped((name, each.plain) for each in own for name in each.defines)
            self._imported[module] = _grouped((each.alias, each) for each in source.imports)

    def hash_of(self, module: str, statement: Statement) -> str:
        """The hash of a statement and of what its names mean."""
        uses = sorted((name, *sorted(self._meanings(module, alias, name))) for alias, name in statement.uses)
        return _sha(statement.plain, *(" ".join(use) for use in uses if len(use) > 1))

    def _meanings(self, module: str, alias: str, name: str) -> set[str]:
        """The definitions of `name`, or of `alias.name`; none of a local or built-in name."""
        if not alias:
            return self._lookup(module, name, frozenset())
        homes = [each.path for each in self._imported[module][alias] if each.path in self.statements]
        return {meaning for home in homes for meaning in self._lookup(home, name, frozenset())}

    def _lookup(self, module: str, name: str, seen: frozenset[tuple[str, str]]) -> set[str]:
        found = set(self._defined[module].get(name, ()))
        for each in self._imported[module].get(name, ()):
            if each.module not in self.statements:
                found.add(each.path)
            elif each.name and (module, name) not in seen:
                found |= self._lookup(each.module, each.name, seen | {(module, name)})
        return found


def _grouped(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    ordered = sorted(pairs)
    return {key: [value for _, value in group] for key, group in groupby(ordered, key=lambda pair: pair[0])}


@cache
def _statement(node: ast.stmt, aliases: frozenset[str]) -> Statement:
    writer = _Writer(aliases)
    return Statement(_defined(node), _sha(writer.text(node)), frozenset(writer.uses))


class _Writer:
    """Writes syntax trees in one form for all versions of Python, and notes the names that they use."""

    def __init__(self, aliases: frozenset[str]):
        self.uses: set[tuple[str, str]] = set()
        self._aliases = aliases

    def text(self, node: Any) -> str:
        """A node as `Name(id=x)`: its class and its fields, but for empty ones."""
        if isinstance(node, list):
            kept = (part for part in node if not isinstance(part, ast.Import | ast.ImportFrom))
            return f"[{','.join(map(self.text, kept))}]"
        if not isinstance(node, ast.AST):
            return str(node)  # a name, a number of a level or conversion, or None
        if isinstance(node, ast.Constant):
            return f"{type(node.value).__name__}:{node.value!a}"  # repr's escapes follow the version's Unicode
        if isinstance(node, ast.JoinedStr):
            return f"JoinedStr({','.join(self._parts(node))})"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._aliases:
            self.uses.add((node.value.id, node.attr))
            return f"Name(id={node.attr})"
        if isinstance(node, ast.Name):
            self.uses.add(("", node.id))
        fields = ((name, getattr(node, name)) for name in node._fields if name not in _NO_CONTENT)
        written = (f"{name}={self.text(value)}" for name, value in fields if value is not None and value != [])
        return f"{type(node).__name__}({','.join(written)})"

    def _parts(self, node: ast.JoinedStr) -> Iterator[str]:
        """The parts of an f-string; versions split its plain text differently."""
        for is_text, parts in groupby(node.values, key=lambda part: isinstance(part, ast.Constant)):
            if is_text:
                yield ascii("".join(part.value for part in parts))  # type: ignore[attr-defined]
            else:
                yield from map(self.text, parts)


def _sha(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
