"""Spark's SQL and one more clause: MATCH_RECOGNIZE as ISO 9075-2 writes it, and WITHIN.

Table functions that read a table, `f(TABLE(t) PARTITION BY k ORDER BY ts, n => 3)`, are Spark's, too,
but sqlglot can't parse them.

The pattern itself is not SQL to sqlglot: `cut_patterns` takes its text out first. RUNNING and
FINAL become `Framed` nodes around a call, and functions with a special meaning inside MATCH_RECOGNIZE
stay plain calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType


class MatchRecognize(exp.Expression):
    """The parts of the clause; names of labels are identifiers with their places in the text."""

    arg_types: ClassVar[dict[str, bool]] = {
        "partition_by": False,
        "order": False,
        "measures": False,  # MeasureClause
        "rows": False,  # Var, upper case
        "skip": False,  # SkipClause
        "pattern": False,  # Literal: the offset of the pattern's text
        "within": False,  # WithinClause
        "subset": False,  # Subset
        "define": False,  # Define
        "alias": False,
    }


class MeasureClause(exp.Expression):
    """`this AS alias` in MEASURES; the alias may be missing."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False}


class SkipClause(exp.Expression):
    """AFTER MATCH SKIP: `kind` is PAST LAST ROW, TO NEXT ROW, FIRST or LAST; `this` the label."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False, "kind": True}


class Subset(exp.Expression):
    """`this = (expressions)` in SUBSET."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True}


class Define(exp.Expression):
    """`this AS condition` in DEFINE."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "condition": True}


class WithinClause(exp.Expression):
    """The bound of WITHIN: a number or an interval, and the unit that followed it."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": False}


class Framed(exp.Expression):
    """RUNNING or FINAL in front of a call."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class TableFunction(exp.Expression):
    """A call in FROM: `this` is its name, the arguments are a TableArgument, Kwargs and constants."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "alias": False}


class TableArgument(exp.Expression):
    """`TABLE(this) PARTITION BY ... ORDER BY ...`; `this` is a Table or a Subquery."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "partition_by": False, "order": False}


# Inside MATCH_RECOGNIZE these stay plain calls with all their arguments, whatever they mean in Spark elsewhere.
PLAIN_CALLS = frozenset(
    {
        *("FIRST", "LAST", "PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER"),
        *("COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX", "MIN_BY", "MAX_BY", "ARG_MIN", "ARG_MAX"),
        *("STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP", "VAR_SAMP"),
        *("BOOL_AND", "BOOL_OR", "EVERY", "SOME", "ANY_VALUE", "ARBITRARY"),
        *("FIRST_VALUE", "LAST_VALUE", "ARRAY_AGG", "COLLECT_LIST", "APPROX_COUNT_DISTINCT"),
    }
)
_NO_TABLE_FUNCTION = frozenset({TokenType.TABLE, TokenType.UNNEST})
_AFTER_MEASURES = frozenset({"ONE", "ALL", "AFTER", "PATTERN"})


class TrimtabParser(SparkParser):
    """Spark's parser with MATCH_RECOGNIZE, and with table functions that read a table."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_match = False

    def _warn_unsupported(self) -> None:
        """Log nothing: syntax that isn't understood becomes an error in a later pass."""

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., exp.Expr]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        first = self._curr
        if self._in_match and first.text.upper() in PLAIN_CALLS:
            anonymous = True
        try:
            found = super()._parse_function_call(functions, anonymous, optional_parens, any_token)
        except (LookupError, TypeError, ValueError, AttributeError):
            # sqlglot's builders fail in many ways if the number of arguments isn't the one they expect.
            self.raise_error(f"These are not the arguments of {first.text.upper()}", first)
            return None
        if found is not None:
            # sqlglot marks the name only; errors underline the whole call.
            found.update_positions(first)
            found.meta["stop"] = self._prev.end + 1
        return found

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        named = self._curr.token_type in self.ID_VAR_TOKENS - _NO_TABLE_FUNCTION
        if not named or self._next.token_type != TokenType.L_PAREN:
            return super()._parse_table(*args, **kwargs)
        start = self._curr
        name = self._parse_name()
        self._match_l_paren()
        arguments = [] if self._curr.token_type == TokenType.R_PAREN else self._parse_csv(self._parse_table_argument)
        if not self._match(TokenType.R_PAREN):
            self.raise_error("Expected , or ) after an argument; put several columns in parentheses")
        call = self.expression(TableFunction(this=name, expressions=arguments), token=start)
        call.set("alias", self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS))
        return call

    def _parse_table_argument(self) -> exp.Expr | None:
        if self._next.token_type == TokenType.FARROW:
            name = self._parse_name()
            self._match(TokenType.FARROW)
            value = self._parse_constant()
            if value is None:
                self.raise_error("Expected a value after =>")
            return self.expression(exp.Kwarg(this=name, expression=value))
        if not self._match(TokenType.TABLE):
            return self._parse_constant()
        in_parentheses = self._match(TokenType.L_PAREN)
        query = self._parse_select() if in_parentheses else None
        table = self._parse_table_parts() if query is None else self.expression(exp.Subquery(this=query))
        if in_parentheses and not self._match(TokenType.R_PAREN):
            self.raise_error("Expected ) after TABLE( and a table or SELECT")
        partition: list[exp.Expr] = []
        if not self._match_text_seq("WITH", "SINGLE", "PARTITION") and self._match(TokenType.PARTITION_BY):
            partition = self._parse_columns(self._parse_disjunction)
        order = self._parse_columns(self._parse_ordered) if self._match(TokenType.ORDER_BY) else []
        return self.expression(TableArgument(this=table, partition_by=partition, order=order))

    def _parse_constant(self) -> exp.Expr | None:
        first = self._curr
        value = self._parse_disjunction()
        if value is not None:  # sqlglot marks neither TRUE nor NULL
            value.update_positions(first)
            value.meta["stop"] = self._prev.end + 1
        return value

    def _parse_columns(self, parse: Callable[[], exp.Expr | None]) -> list[exp.Expr]:
        """One column, or several in parentheses: after a comma comes the next argument."""
        if self._curr.token_type == TokenType.L_PAREN:
            return self._parse_wrapped_csv(parse)
        found = parse()
        if found is None:
            self.raise_error("Expected a column")
            return []
        return [found]

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
        # Right after GROUP BY sqlglot reads `window` as a WINDOW clause; before a parenthesis it is a call.
        following = self._tokens[self._index + 1 : self._index + 3]
        if [token.token_type for token in following] == [TokenType.WINDOW, TokenType.L_PAREN]:
            following[0].token_type = TokenType.VAR
        return super()._parse_group(skip_group_by_token)

    def _parse_column(self) -> exp.Expr | None:
        if not (self._in_match and self._at_frame()):
            return super()._parse_column()
        start = self._curr
        self._advance()
        call = self._parse_function(any_token=True)
        framed = self.expression(Framed(this=call, kind=start.text.upper()), token=start)
        return self._parse_column_ops(framed)

    def _at_frame(self) -> bool:
        """Whether the next token is RUNNING or FINAL as a prefix, and not as a name."""
        if self._curr.text.upper() not in ("RUNNING", "FINAL"):
            return False
        following = self._tokens[self._index + 1 : self._index + 3]
        return (
            self._curr.token_type == TokenType.VAR
            and len(following) == 2
            and following[0].text.isidentifier()
            and following[1].token_type == TokenType.L_PAREN
        )

    def _parse_match_recognize(self) -> Any:
        if not self._match(TokenType.MATCH_RECOGNIZE):
            return None
        start = self._prev
        outer, self._in_match = self._in_match, True
        self._match_l_paren()
        clause = MatchRecognize(
            partition_by=self._parse_partition_by(),
            order=self._parse_order(),
            measures=self._parse_csv(self._parse_measure) if self._match_text_seq("MEASURES") else [],
            rows=self._parse_rows_per_match(),
            skip=self._parse_skip(),
            pattern=self._parse_pattern_place(),
        )
        within = self._parse_within()
        clause.set("subset", self._parse_csv(self._parse_subset) if self._match_text_seq("SUBSET") else [])
        clause.set("within", within or self._parse_within())
        clause.set("define", self._parse_csv(self._parse_define) if self._match_text_seq("DEFINE") else [])
        if not self._match(TokenType.R_PAREN):
            self.raise_error("Expected the next clause of MATCH_RECOGNIZE, in their order, or )")
        self._in_match = outer
        clause.set("alias", self._parse_table_alias())
        return self.expression(clause, token=start)

    def _parse_measure(self) -> exp.Expr | None:
        value = self._parse_disjunction()
        if value is None:
            return None
        named = self._match(TokenType.ALIAS)
        alias = self._parse_name() if named else None
        if not named and self._curr.token_type == TokenType.VAR and self._curr.text.upper() not in _AFTER_MEASURES:
            self.raise_error("Expected AS and the name of the measure")
        return self.expression(MeasureClause(this=value, alias=alias))

    def _parse_name(self) -> exp.Expr:
        name = self._parse_id_var(any_token=True)
        if not isinstance(name, exp.Identifier):
            self.raise_error("Expected a name")
            return exp.to_identifier("")
        return name

    def _parse_rows_per_match(self) -> exp.Expr | None:
        if self._match_text_seq("ONE", "ROW", "PER", "MATCH"):
            return exp.var("ONE ROW PER MATCH")
        if not self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            return None
        for words in (("OMIT", "EMPTY", "MATCHES"), ("WITH", "UNMATCHED", "ROWS")):
            if self._match_text_seq(*words):
                return exp.var("ALL ROWS PER MATCH " + " ".join(words))
        self._match_text_seq("SHOW", "EMPTY", "MATCHES")
        return exp.var("ALL ROWS PER MATCH SHOW EMPTY MATCHES")

    def _parse_skip(self) -> exp.Expr | None:
        if not self._match_text_seq("AFTER", "MATCH", "SKIP"):
            return None
        if self._match_text_seq("PAST", "LAST", "ROW"):
            return self.expression(SkipClause(kind="PAST LAST ROW"))
        if not self._match_text_seq("TO"):
            self.raise_error("Expected PAST LAST ROW or TO after AFTER MATCH SKIP")
        if self._match_text_seq("NEXT", "ROW"):
            return self.expression(SkipClause(kind="TO NEXT ROW"))
        kind = "LAST"
        # FIRST and LAST may themselves be labels: they are when PATTERN comes next.
        is_label = self._next is None or self._next.text.upper() == "PATTERN"
        if not is_label and self._match_texts(("FIRST", "LAST")):
            kind = self._prev.text.upper()
        return self.expression(SkipClause(this=self._parse_name(), kind=kind))

    def _parse_pattern_place(self) -> exp.Expr | None:
        if not self._match_text_seq("PATTERN"):
            return None
        if not self._match(TokenType.L_PAREN):
            self.raise_error("Expected ( after PATTERN")
        place = exp.Literal.number(self._prev.end + 1)
        self._match_r_paren()
        return place

    def _parse_within(self) -> exp.Expr | None:
        if not self._match_text_seq("WITHIN"):
            return None
        start = self._prev
        value = self._parse_interval() or self._parse_unary()
        if value is None:
            self.raise_error("Expected a length of time after WITHIN")
        stop = self._prev
        unit = None
        if self._curr and self._curr.text.upper() not in ("SUBSET", "DEFINE", ")"):
            unit = self._parse_var(any_token=True)
            stop = self._prev
        length = self.expression(WithinClause(this=value, unit=unit))
        first = self._tokens[self._tokens.index(start) + 1]
        length.update_positions(first)
        length.meta["stop"] = stop.end + 1
        return length

    def _parse_subset(self) -> exp.Expr | None:
        name = self._parse_name()
        if not self._match(TokenType.EQ):
            self.raise_error("Expected = in SUBSET")
        members = self._parse_wrapped_csv(self._parse_name)
        return self.expression(Subset(this=name, expressions=members))

    def _parse_define(self) -> exp.Expr | None:
        name = self._parse_name()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS in DEFINE")
        condition = self._parse_disjunction()
        if condition is None:
            self.raise_error("Expected a condition in DEFINE")
        return self.expression(Define(this=name, condition=condition))


class Trimtab(Spark):
    """Spark SQL with MATCH_RECOGNIZE."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens and one keyword."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Spark.Tokenizer.KEYWORDS,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        }

    Parser = TrimtabParser
