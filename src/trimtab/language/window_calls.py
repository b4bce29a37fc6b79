"""Aggregate calls in windows: which function of the engine a syntax node means, and its arguments.

FILTER becomes a CASE around the argument, so the engine needn't know it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from trimtab.engine.windows import aggregates
from trimtab.engine.windows.cardinality import p_for
from trimtab.engine.windows.quantiles import DEFAULT_K, k_for
from trimtab.language.merge import Context
from trimtab.language.mistakes import did_you_mean, placed

_BY_NODE: dict[type[exp.Expr], str] = {
    exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", exp.Count: "count", exp.CountIf: "count_if",
    exp.Stddev: "stddev_samp", exp.StddevSamp: "stddev_samp", exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp", exp.VariancePop: "var_pop",
    exp.LogicalAnd: "bool_and", exp.LogicalOr: "bool_or", exp.Any: "bool_or",
    exp.First: "first_value", exp.FirstValue: "first_value", exp.Last: "last_value", exp.LastValue: "last_value",
    exp.AnyValue: "any_value", exp.ArgMin: "min_by", exp.ArgMax: "max_by",
    exp.ArrayAgg: "collect_list",  # Spark's array_agg leaves nulls out, too
    exp.ApproxDistinct: "approx_count_distinct", exp.ApproxQuantile: "percentile", exp.ApproxTopK: "top_k",
    exp.Lag: "lag", exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank",
}  # fmt: skip
_BY_NAME = {
    "every": "bool_and", "bool_and": "bool_and", "some": "bool_or", "bool_or": "bool_or",
    "std": "stddev_samp", "mean": "avg", "top_k": "top_k", "approx_top_k": "top_k",
}  # fmt: skip
_UNBOUNDED = (exp.Ntile, exp.PercentRank, exp.CumeDist, exp.NthValue)
_QUANTILES = (exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc)
_DEFAULT_TOP_K = 5  # as approx_top_k in Spark
_WITH_NULLS = ("first_value", "last_value")
WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
WORDS = (*_BY_NAME, *aggregates.FUNCTIONS, "percentile_approx", "approx_percentile", "count_if", "stddev", "variance")


@dataclass(frozen=True, slots=True)
class Called:
    """A call, understood: the engine's function, its row-local arguments, and its parameters."""

    function: str
    args: tuple[exp.Expr, ...]
    node: exp.Expr
    parameters: tuple[float, ...] = ()


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call that crosses rows, known or not."""
    if isinstance(node, WRAPPERS):
        return True
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _BY_NAME
    return isinstance(node, (*_BY_NODE, exp.AggFunc))


def read_call(context: Context, node: exp.Expr, known: Collection[str], where: str) -> Called:
    """What a call means; `known` are the functions that a clause, called `where`, allows. Raises QueryError."""
    called = _read(context, node, known, where)
    for arg in called.args:
        context.relation.check_names(arg)
    return called


def _read(context: Context, node: exp.Expr, known: Collection[str], where: str) -> Called:
    if isinstance(node, exp.Filter):
        return _filtered(context, _read(context, node.this, known, where), node.expression.this)
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        return _nulls(context, _read(context, node.this, known, where), node)
    function = _function(context, node, where)
    called = _arguments(context, function, node)
    if called.function not in known:
        message = f"{_written(node)} can't be used {where}"
        raise context.error("query.window-function", message, node, f"there are {', '.join(sorted(known))}")
    return called


def _written(node: exp.Expr) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else node.key.lower()


def _function(context: Context, node: exp.Expr, where: str) -> str:
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name in _BY_NAME:
            return _BY_NAME[name]
        hint = did_you_mean(name, WORDS, otherwise="see the list of aggregate functions")
        raise context.error("query.function", f"there is no aggregate function {name}", node, hint)
    if isinstance(node, exp.Lead):
        message = "lead looks at rows that haven't arrived yet"
        raise context.error("query.window-frame", message, node, "turn it around: lag looks back")
    if isinstance(node, _UNBOUNDED):
        message = f"{_written(node)} needs all rows of its partition, and a stream has no end"
        raise context.error("query.window-function", message, node)
    for kind, function in _BY_NODE.items():
        if isinstance(node, kind):
            return function
    exact = isinstance(node, _QUANTILES)
    hint = "it would keep every row: use percentile_approx" if exact else did_you_mean(_written(node), WORDS)
    raise context.error("query.window-function", f"{_written(node)} can't be used {where}", node, hint)


def _arguments(context: Context, function: str, node: exp.Expr) -> Called:
    """Take a call apart."""
    args = list(node.expressions) if isinstance(node, exp.Anonymous) else [node.this] if node.this else []
    if function == "count":
        return _count(context, node)
    if function == "count_if":
        return Called("count", (_when(args[0], exp.Literal.number(1)),), node)
    if function in ("row_number", "rank", "dense_rank"):
        return Called(function, (), node)
    if function == "lag":
        default = node.args.get("default")
        offset = _whole(context, node.args.get("offset"), "the offset of lag", 1, least=0)
        return Called(function, (args[0], *([default] if default is not None else [])), node, (offset,))
    if function in ("min_by", "max_by"):
        return Called(function, (args[0], node.expression), node)
    if function == "top_k":
        many = args[1] if len(args) > 1 else node.args.get("expression")
        return Called(function, (args[0],), node, (_whole(context, many, "how many", _DEFAULT_TOP_K, least=1),))
    if function == "approx_count_distinct":
        error = node.args.get("accuracy")
        return Called(function, (args[0],), node, (p_for(_share(context, error)),) if error else ())
    if function == "percentile":
        return _percentile(context, args[0], node)
    if len(args) != 1 or isinstance(args[0], exp.Distinct) or (node.args.get("expressions") and args[0] is node.this):
        message = f"{_written(node)} takes one argument here"
        raise context.error("query.function", message, node, "DISTINCT is only known to count")
    return Called(function, (args[0].unnest() if isinstance(node, exp.Any) else args[0],), node)


def _count(context: Context, node: exp.Expr) -> Called:
    arg = node.this
    if isinstance(arg, exp.Distinct):
        if len(arg.expressions) != 1:
            hint = "combine them into one text or number: struct(a, b) can't be compared yet"
            raise context.error("query.function", "count(DISTINCT ...) takes one argument", node, hint)
        return Called("count_distinct", (arg.expressions[0],), node)
    if arg is None or isinstance(arg, exp.Star) or (isinstance(arg, exp.Literal) and not node.expressions):
        return Called("count", (), node)
    return Called("count", (arg, *node.expressions), node)


def _percentile(context: Context, value: exp.Expr, node: exp.Expr) -> Called:
    ranks = node.args["quantile"]
    several = isinstance(ranks, exp.Array)
    numbers = [_share(context, each, closed=True) for each in (ranks.expressions if several else [ranks])]
    if not numbers:
        raise context.error("query.function", "percentile_approx needs at least one share", node)
    accuracy = node.args.get("accuracy")
    k = DEFAULT_K if accuracy is None else k_for(_whole(context, accuracy, "the accuracy", 1, least=1))
    return Called("percentiles" if several else "percentile", (value,), node, (k, *numbers))


def _filtered(context: Context, called: Called, condition: exp.Expr) -> Called:
    """FILTER: where the condition doesn't hold, the argument is null, which aggregates skip."""
    if called.function in (*_WITH_NULLS, "lag", "row_number", "rank", "dense_rank"):
        message = f"FILTER and {called.function} don't go together: it looks at nulls as well"
        raise context.error("query.window-function", message, called.node, "write IGNORE NULLS, or use any_value")
    args = called.args or (exp.Literal.number(1),)
    # The last argument is the one whose null makes the function skip the row.
    changed = (*args[:-1], _when(condition, args[-1]))
    return Called(called.function, changed, called.node, called.parameters)


def _nulls(context: Context, called: Called, node: exp.Expr) -> Called:
    """IGNORE NULLS and RESPECT NULLS."""
    if isinstance(node, exp.RespectNulls) or called.function == "any_value":
        return called
    if called.function not in _WITH_NULLS:
        message = f"IGNORE NULLS doesn't go with {called.function}"
        raise context.error("query.window-function", message, node, "it is for first_value and last_value")
    name = "first_known" if called.function == "first_value" else "last_known"
    return Called(name, called.args, called.node)


def _when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    case = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    return placed(case, value if value.find(exp.Column) else condition)


def _whole(context: Context, node: exp.Expr | None, what: str, default: int, *, least: int) -> int:
    """A whole number that is written out."""
    if node is None:
        return default
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit() or int(node.name) < least:
        raise context.error("query.window-number", f"{what} is a whole number from {least} on", node, "write it out")
    return int(node.name)


def _share(context: Context, node: exp.Expr, *, closed: bool = False) -> float:
    """A number between 0 and 1 that is written out."""
    value = float(node.name) if isinstance(node, exp.Literal) and not node.is_string else -1.0
    if not (0 <= value <= 1 if closed else 0 < value < 1):
        message = "this is a share, a number between 0 and 1"
        raise context.error("query.window-number", message, node, "write it out, as in 0.95")
    return value
