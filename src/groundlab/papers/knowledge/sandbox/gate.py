"""The static gate: which programs of a language model are let into the sandbox at all.

    refusal("import os")    "line 1: import of os"
    refusal(code)           None: let in

What is not named here is refused: kinds of syntax, attributes, imports. So there is no way to an object's inner parts,
to a module that reaches out, to anything that a program could change and that outlives its window (program.py), or to
memory that nobody wrote (program.py checks dtypes). Addresses cannot be seen here; child.py hides them. A gate alone is
no sandbox: `child.py` holds what comes through. Only the standard library is imported; the sandbox runs this bare.
"""

import ast
from collections.abc import Iterator

LONGEST = 32_768  # bytes of source
LARGEST = 6_000  # nodes of its tree

_ALLOWED = (
    *(ast.Module, ast.FunctionDef, ast.Return, ast.arguments, ast.arg, ast.Lambda, ast.Call, ast.keyword, ast.Starred),
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.Expr, ast.Pass, ast.Assert, ast.Delete),
    *(ast.If, ast.IfExp, ast.For, ast.While, ast.Break, ast.Continue, ast.Try, ast.ExceptHandler, ast.Raise),
    *(ast.Import, ast.ImportFrom, ast.alias, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant),
    *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.boolop, ast.operator, ast.unaryop, ast.cmpop),
    *(ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.comprehension, ast.JoinedStr, ast.FormattedValue, ast.expr_context),
)
_MODULES = ("numpy", "math", "typing", "minigrid.core.constants", "minigrid.core.actions")
_BANNED = (
    "open exec eval compile input breakpoint getattr setattr delattr hasattr globals locals vars dir type object super "
    "classmethod staticmethod property memoryview help exit quit id hash"
)
_NUMPY = (
    "abs absolute add all allclose any append arange arccos arcsin arctan arctan2 argmax argmin argsort argwhere "
    "around array array_equal asarray atleast_1d average bincount bool_ ceil clip column_stack concatenate copy "
    "copysign cos count_nonzero cumprod cumsum deg2rad degrees diag diff divide dot e equal errstate euler_gamma exp "
    "expand_dims expm1 eye fabs finfo flatnonzero flip float32 float64 floor floor_divide fmax fmin full full_like "
    "greater greater_equal histogram hstack hypot identity inf inner int8 int16 int32 int64 integer floating number "
    "interp intersect1d isclose isfinite isin isinf isnan less less_equal linspace log log10 log1p log2 logical_and "
    "logical_not logical_or logical_xor matmul max maximum mean median meshgrid min minimum mod moveaxis multiply nan "
    "nan_to_num nanmax nanmean nanmin nansum ndarray ndim negative nonzero norm linalg not_equal ones ones_like outer "
    "percentile pi pow power prod quantile rad2deg ravel reciprocal remainder repeat reshape roll rot90 round "
    "searchsorted sign sin size sort sqrt square squeeze stack std subtract sum swapaxes take tan tanh tile trace "
    "transpose tril triu true_divide uint8 uint16 uint32 uint64 union1d unique unravel_index var vstack where zeros "
    "zeros_like"
)
_METHODS = (  # of arrays, lists, dictionaries, sets and strings
    "astype flatten item tolist shape dtype T argpartition fill index count extend insert pop remove reverse clear get "
    "items keys values update setdefault discard difference intersection union issubset issuperset isdisjoint "
    "symmetric_difference lower upper strip split startswith endswith join replace title is_integer"
)
_WHERE = "all any max mean min nanmax nanmean nanmin nansum prod std sum var"  # what takes `where` and leaves no holes
_OTHERS = (  # of math, and of minigrid's actions
    "comb dist factorial fsum gcd isqrt radians left right forward pickup drop toggle done value name Actions"
)
_TYPES = "Any Callable Dict Iterable List Optional Sequence Set Tuple Union"
_CONSTANTS = "* COLOR_NAMES COLOR_TO_IDX DIR_TO_VEC IDX_TO_COLOR IDX_TO_OBJECT OBJECT_TO_IDX STATE_TO_IDX"

_BANNED_NAMES = frozenset(_BANNED.split())
_REDUCTIONS = frozenset(_WHERE.split())
ATTRIBUTES = frozenset(" ".join((_NUMPY, _METHODS, _OTHERS)).split())
_FROM = {
    "typing": frozenset(_TYPES.split()),
    "minigrid.core.constants": frozenset(_CONSTANTS.split()),
    "minigrid.core.actions": frozenset({"Actions"}),
}


def refusal(source: str) -> str | None:
    """Why the program is not let in, with its line, or None. Never runs it."""
    if len(source.encode(errors="replace")) > LONGEST:
        return f"longer than {LONGEST} bytes"
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}" if error.lineno else f"cannot be parsed ({error.msg})"
    except Exception as error:  # whatever it is, the program's author shall hear of it
        return f"cannot be parsed ({type(error).__name__})"
    for count, node in enumerate(ast.walk(tree)):
        reason = f"more than {LARGEST} parts" if count > LARGEST else next(_objections(node), None)
        if reason:
            return f"line {getattr(node, 'lineno', '?')}: {reason}"
    if not any(isinstance(node, ast.FunctionDef) and node.name == "compute_reward" for node in tree.body):
        return "no function compute_reward"
    return None


def _objections(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, _ALLOWED):
        yield f"{type(node).__name__} is not needed for a potential"
    elif isinstance(node, ast.Import):
        yield from (f"import of {alias.name}" for alias in node.names if alias.name not in ("numpy", "math", "typing"))
    elif isinstance(node, ast.ImportFrom):
        yield from _import_objections(node)
    elif isinstance(node, ast.Attribute):
        yield from _attribute_objections(node)
    elif isinstance(node, ast.Call):
        yield from _call_objections(node)
    elif isinstance(node, ast.FunctionDef | ast.Lambda):
        yield from _function_objections(node)
    elif isinstance(node, ast.While) and isinstance(node.test, ast.Constant):
        yield "while without a bound"
    elif isinstance(node, ast.ExceptHandler) and node.type is None:
        yield "except without an exception"
    yield from (f"the name {name}" for name in _names(node) if name in _BANNED_NAMES or name.startswith("__"))


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a node reads or binds."""
    fields = {ast.Name: "id", ast.arg: "arg", ast.keyword: "arg", ast.FunctionDef: "name"}
    fields |= {ast.ExceptHandler: "name", ast.alias: "asname"}
    name = getattr(node, fields.get(type(node), ""), None)
    if name:
        yield name


def _import_objections(node: ast.ImportFrom) -> Iterator[str]:
    module = node.module or ""
    if node.level or module not in _MODULES:
        yield f"import from {module or '.'}"
    known = _FROM.get(module, ATTRIBUTES)
    yield from (f"import of {module}.{alias.name}" for alias in node.names if alias.name not in known)


def _attribute_objections(node: ast.Attribute) -> Iterator[str]:
    if node.attr not in ATTRIBUTES:
        yield f"the attribute {node.attr}"
    elif not isinstance(node.ctx, ast.Load):
        yield f"a write to the attribute {node.attr}"


def _call_objections(node: ast.Call) -> Iterator[str]:
    """What `where` leaves out is memory that nobody wrote, unless `out` is an array (program.py checks that it is)."""
    words = {keyword.arg for keyword in node.keywords}
    if None in words:
        yield "** in a call"
    yield from (f"the argument {word}" for word in ("signature", "sig") if word in words)  # a dtype by another name
    reduces = isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCTIONS
    if "where" in words and "out" not in words and not reduces:
        yield "where without out leaves numbers that nobody wrote; add out=np.zeros_like(...)"


def _function_objections(node: ast.FunctionDef | ast.Lambda) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        yield "a decorator"
    defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Call)
    if any(isinstance(default, mutable) for default in defaults):
        yield "a default that can change keeps state between calls"
