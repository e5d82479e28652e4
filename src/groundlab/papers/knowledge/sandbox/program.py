"""A program of a language model inside its process: compiled once, defined anew for every window.

    program = Program(source, constants, gated=True)
    compute_reward = program.define()       # its module runs here, in a namespace that nothing has touched
    compute_reward(obs, past_obs, past_actions)

Whatever a program keeps at its own level (lists, defaults, closures, attributes of functions, minigrid's tables) ends
with the window. With the gate on there is nothing else that it can write to: numpy, math and typing are objects without
a method that changes them. Only the standard library and numpy are imported: child.py runs this in a bare interpreter.
"""

import ast
import builtins
import functools
import gc
import linecache
import math
import sys
import typing
from collections.abc import Callable
from enum import IntEnum
from types import CodeType, ModuleType
from typing import Any

import numpy as np

FILE = "<knowledge>"  # of a program, in tracebacks
_SAFE = (
    "abs all any bool dict divmod enumerate filter float frozenset int isinstance len list map max min pow range repr "
    "reversed round set slice sorted str sum tuple zip Exception ArithmeticError AssertionError FloatingPointError "
    "IndexError KeyError LookupError OverflowError RuntimeError StopIteration TypeError ValueError ZeroDivisionError"
)
_SIZES = range(0, 480, 16)  # of the interpreter's small objects
CHECK, DTYPE, ASTYPE = "__array", "__dtype", "__astype"  # what arguments go through; the gate lets no program name them
_DTYPES = (
    "bool int int8 int16 int32 int64 uint8 uint16 uint32 uint64 float float32 float64 i f d i1 i2 i4 i8 u1 u2 u4 u8"
)
_DTYPES += " f4 f8 ? <i4 <i8 <f4 <f8"
_PLAIN: Any = (np.bool_, np.integer, np.float32, np.float64)
_TAKES_DTYPE = {"array": 1, "asarray": 1, "zeros": 1, "ones": 1, "full": 2, "zeros_like": 1, "ones_like": 1}
_TAKES_DTYPE |= {"full_like": 2, "arange": 3, "eye": 3, "identity": 1, "linspace": 5}  # by position, too


@functools.cache
def actions_enum(names: tuple[str, ...]) -> Any:
    """Minigrid's actions; made before child.py hides addresses, for enum hashes functions."""
    return IntEnum("Actions", {name: code for code, name in enumerate(names)})


class Program:
    """One source text. Raises what compiling raises."""

    def __init__(self, source: str, constants: dict[str, Any], gated: bool):
        """constants: minigrid's tables by name, from JSON. gated: only safe builtins and the modules of the prompt."""
        linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
        self._tables: dict[str, Any] = {
            name: np.array(value) if name == "DIR_TO_VEC" else value
            for name, value in constants.items()
            if name != "ACTIONS"
        }
        for name in ("IDX_TO_OBJECT", "IDX_TO_COLOR"):
            self._tables[name] = {int(key): value for key, value in self._tables[name].items()}
        numpy = _NUMPY if gated else np
        self._modules = {"numpy": numpy, "math": math, "typing": typing}
        self._names = {"np": numpy, "numpy": numpy, "math": math, "Dict": dict, "Tuple": tuple, "List": list}
        self._names["Actions"] = actions_enum(tuple(constants["ACTIONS"]))
        self._builtins = {name: getattr(builtins, name) for name in _SAFE.split()} if gated else None
        if self._builtins is not None:
            self._builtins |= {"print": lambda *given, **options: None, CHECK: _checked, DTYPE: _dtype, ASTYPE: _astype}
        self._code = _compile(source, gated)
        self._scope: dict[str, Any] = {}
        self._count, self._spacers = 0, []
        gc.freeze()  # so that looking for what one window left takes a microsecond

    def define(self) -> Callable[..., Any]:
        """`compute_reward`, defined anew; all that the one before it held is gone first, cycles and memory included."""
        self._scope.clear()
        gc.collect()
        self._count += 1
        self._spacers = [bytes(size) for _ in range(self._count % 3) for size in _SIZES]  # addresses shall not repeat
        tables = {name: table.copy() for name, table in self._tables.items()} | {"Actions": self._names["Actions"]}
        scope: dict[str, Any]
        self._scope = scope = self._names | tables | {"__name__": "knowledge"}
        if self._builtins is not None:
            scope["__builtins__"] = self._builtins | {"__import__": self._importer(tables)}
        exec(self._code, scope)
        return scope["compute_reward"]

    def _importer(self, tables: dict[str, Any]) -> Callable[..., ModuleType]:
        """`__import__` for one namespace: the modules of the prompt, minigrid's with this namespace's own tables."""

        def load(name: str, *rest: Any) -> ModuleType:
            if name in ("minigrid.core.constants", "minigrid.core.actions"):
                module = ModuleType(name)
                vars(module).update(tables)
                return module
            return self._modules[name] if name in self._modules else _numpy_part(name)

        return load


def _numpy_part(name: str) -> ModuleType:
    """Numpy's own C code imports its parts by the importer of whoever called it; the gate lets no program name them."""
    if not name.startswith("numpy."):
        raise ImportError(name)
    return sys.modules[name]


class _ArrayType(type):
    """What a program has for numpy.ndarray: a type to be named and asked for; made without values it is old memory."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, np.ndarray)

    def __getattr__(cls, name: str) -> Any:
        return getattr(np.ndarray, name)

    def __call__(cls, *given: Any, **options: Any) -> Any:
        raise TypeError("ndarray(...) holds memory that nobody wrote; use np.zeros or np.array")


def _numpy_for_programs() -> ModuleType:
    module = ModuleType("numpy")
    vars(module).update(vars(np))
    vars(module)["ndarray"] = _ArrayType("ndarray", (), {})
    vars(module).update({name: _typed(getattr(np, name), position) for name, position in _TAKES_DTYPE.items()})
    return module


def _typed(function: Callable[..., Any], position: int) -> Callable[..., Any]:
    """The function, whose positional argument there is a kind of number (those called `dtype` are checked by name)."""

    @functools.wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        if len(given) > position:
            _dtype(given[position])
        return function(*given, **options)

    return call


def _dtype(kind: Any) -> Any:
    """A kind of number that has no byte which nobody wrote: no long double, void, record, object or text."""
    plain = kind is None or (isinstance(kind, str) and kind in _DTYPES.split())
    if isinstance(kind, np.dtype):
        plain = kind.kind in "biuf" and kind.itemsize <= 8
    elif isinstance(kind, type):
        plain = kind in (bool, int, float) or issubclass(kind, _PLAIN)
        plain = plain or kind in (np.number, np.floating)
    if not plain:
        raise TypeError("a dtype must be bool, or int or float of at most 64 bits, such as np.float32")
    return kind


def _astype(array: Any) -> Callable[..., Any]:
    """The method `astype` of an array, for such kinds."""
    return lambda dtype, *rest, **options: array.astype(_dtype(dtype), *rest, **options)


_NUMPY = _numpy_for_programs()


def _checked(out: Any) -> Any:
    """An argument `out` beside `where`: an array, so that what `where` leaves out holds the program's own values."""
    if isinstance(out, np.ndarray):
        return out
    raise TypeError("out must be an array where there is a where, such as np.zeros_like(x)")


def _compile(source: str, gated: bool) -> CodeType:
    """The code; with the gate, each `out` beside `where`, each `dtype` and each `astype` goes through its check."""
    return compile(_Checks().visit(ast.parse(source)) if gated else source, FILE, "exec")


class _Checks(ast.NodeTransformer):
    """Puts checks around arguments."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        checks = {"dtype": DTYPE} | ({"out": CHECK} if any(each.arg == "where" for each in node.keywords) else {})
        for keyword in node.keywords:
            if keyword.arg in checks:
                keyword.value = _through(checks[keyword.arg], keyword.value)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return _through(ASTYPE, node.value) if node.attr == "astype" else node


def _through(check: str, value: ast.expr) -> ast.expr:
    name = ast.copy_location(ast.Name(check, ast.Load()), value)
    return ast.copy_location(ast.Call(name, [value], []), value)
