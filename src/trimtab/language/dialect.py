"""Spark's SQL and one more clause: MATCH_RECOGNIZE as ISO 9075-2 writes it, and WITHIN.

Table functions that read a table, `f(TABLE(t) PARTITION BY k ORDER BY ts, n => 3)`, are Spark's, too,
but sqlglot can't parse them.

The pattern itself is not SQL to sqlglot: `cut_patterns` takes its text out first. RUNNING and FINAL become `Framed`
nodes around a call, and functions with a special meaning inside MATCH_RECOGNIZE stay plain calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from trimtab.engine.match.aggregates import FOLDS
from trimtab.language.clause_hints import CLAUSES, WITHIN_PLACE, clause_hint, misspelled_clause
from trimtab.language.mistakes import instead_of


class MatchRecognize(exp.Expression):
    """The parts of the clause; names of labels are identifiers with their places in the text."""

    arg_types: ClassVar[dict[str, bool]] = {
        "partition_by": False,
        "order": False,
        "measures": False,  # Alias; its name may be missing
        "rows": False,  # Var, upper case
        "skip": False,  # SkipClause
        "pattern": False,  # Literal: the offset of the pattern's text
        "within": False,  # WithinClause
        "subset": False,  # Subset
        "define": False,  # Alias: a condition, and the label as its name
        "alias": False,
    }


class SkipClause(exp.Expression):
    """AFTER MATCH SKIP: `kind` is PAST LAST ROW, TO NEXT ROW, FIRST or LAST; `this` the label."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False, "kind": True}


class Subset(exp.Expression):
    """`this = (expressions)` in SUBSET."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True}


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


AGGREGATE_NAMES = {name.upper(): name for name in FOLDS.keys() - {"count_distinct"}} | {
    "ANY": "bool_or", "SOME": "bool_or", "EVERY": "bool_and", "ARBITRARY": "any_value", "MEAN": "avg",
    "ARG_MAX": "max_by", "ARG_MIN": "min_by", "STD": "stddev_samp", "STDDEV": "stddev_samp", "VARIANCE": "var_samp",
}  # fmt: skip
"""The aggregates of patterns by their names in SQL; count(DISTINCT x) has a name in the engine only."""
# Inside MATCH_RECOGNIZE these stay plain calls with all their arguments, whatever they mean in Spark elsewhere.
# sqlglot has a node for ANY, which is an operator too.
PLAIN_CALLS = {*AGGREGATE_NAMES, "FIRST", "LAST", "PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER"} - {"ANY"}
_NO_TABLE_FUNCTION = frozenset({TokenType.TABLE, TokenType.UNNEST})
_EXPECTED = "expected the next clause of MATCH_RECOGNIZE, in their order, or )"
_LISTS = {
    "partition_by": "PARTITION BY",
    "order": "ORDER BY",
    "measures": "MEASURES",
    "subset": "SUBSET",
    "define": "DEFINE",
}
"""The clauses that are lists, by what they are called in `MatchRecognize`."""


class TrimtabParser(SparkParser):
    """Spark's parser with MATCH_RECOGNIZE, and with table functions that read a table."""

    _in_match = False

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
        if self._in_match and self._is_at_pattern():
            is_comma = self._prev.token_type == TokenType.COMMA
            self._refuse("something is missing", "leave the comma out" if is_comma else "")
        if self._in_match and first.text.upper() in PLAIN_CALLS:
            anonymous = True
        try:
            found = super()._parse_function_call(functions, anonymous, optional_parens, any_token)
        except (LookupError, TypeError, ValueError, AttributeError):
            # sqlglot's builders fail in many ways if the number of arguments isn't the one they expect.
            self.raise_error(f"These are not the arguments of {first.text.upper()}", first)
            return None
        # sqlglot marks the name only; errors underline the whole call.
        return None if found is None else self._spanning(found, first)

    def _spanning(self, node: exp.Expr, first: Token) -> exp.Expr:
        """The node, with its place from the first token to the last one that was read."""
        node.update_positions(first)
        node.meta["stop"] = self._prev.end + 1
        return node

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        inside = self._tokens[self._index + 2 : self._index + 3]
        if self._is_at("TABLE") and inside and (hint := instead_of(inside[0].text)):
            self._refuse("a table function isn't written inside TABLE(...)", hint)
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
        first, value = self._curr, self._parse_disjunction()
        return None if value is None else self._spanning(value, first)  # sqlglot marks neither TRUE nor NULL

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
        # Right after GROUP BY sqlglot reads `window` as a WINDOW clause; before a parenthesis it is a call. SESSION
        # is never a call to it, and is refused as one later.
        for token, following in itertools.pairwise(self._tokens[self._index :]):
            if token.token_type in (TokenType.WINDOW, TokenType.SESSION) and following.token_type == TokenType.L_PAREN:
                token.token_type = TokenType.VAR
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
        following = self._tokens[self._index + 1 : self._index + 3]
        return (
            self._is_at("RUNNING", "FINAL")
            and self._curr.token_type == TokenType.VAR
            and len(following) == 2
            and following[0].text.isidentifier()
            and following[1].token_type == TokenType.L_PAREN
        )

    def _refuse(self, message: str, hint: str) -> NoReturn:
        """Raise an error at the present token, with a hint."""
        at = self._curr or self._prev
        raise ParseError(message, [{"description": message, "span": (at.start, at.end + 1), "hint": hint}])

    def _is_at(self, *words: str) -> bool:
        return bool(self._curr) and self._curr.text.upper() in words

    def _is_at_pattern(self) -> bool:
        return self._is_at("PATTERN") and bool(self._next) and self._next.token_type == TokenType.L_PAREN

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
        if clause.args["pattern"] is None and self._is_at("WITHIN"):
            self._refuse(_EXPECTED, WITHIN_PLACE)
        within = self._parse_within()
        clause.set("subset", self._parse_csv(self._parse_subset) if self._match_text_seq("SUBSET") else [])
        clause.set("within", within or self._parse_within())
        clause.set("define", self._parse_csv(self._parse_define) if self._match_text_seq("DEFINE") else [])
        if not self._match(TokenType.R_PAREN):
            read = [_LISTS.get(name, "") for name, value in clause.args.items() if value]
            self._refuse(_EXPECTED, clause_hint(self._tokens[self._index :], read[-1] if read else ""))
        self._in_match = outer
        if self._is_at("WITHIN") and self._next and self._next.token_type in (TokenType.INTERVAL, TokenType.NUMBER):
            self._refuse("WITHIN is a clause of MATCH_RECOGNIZE", f"{WITHIN_PLACE}, before the closing parenthesis")
        clause.set("alias", self._parse_table_alias())
        return self.expression(clause, token=start)

    def _parse_measure(self) -> exp.Expr | None:
        value = self._parse_disjunction()
        if value is None:
            return None
        named = self._match(TokenType.ALIAS)
        if named and self._is_at_pattern():
            self._refuse("expected the name of the measure", "")
        alias = self._parse_name() if named else None
        if not named and self._curr.token_type in self.ID_VAR_TOKENS and not self._is_at(*CLAUSES):
            following = self._next.text.upper() if self._next else ""
            if not misspelled_clause(self._curr.text, following):
                hint = "add AS and a name, and a comma" if following == "." else f"write AS {self._curr.text}"
                self._refuse("expected AS and the name of the measure", hint)
        return self.expression(exp.Alias(this=value, alias=alias))

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
            hint = "as in SKIP PAST LAST ROW, SKIP TO NEXT ROW or SKIP TO LAST A"
            self._refuse("expected PAST LAST ROW or TO after AFTER MATCH SKIP", hint)
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
            self._refuse("expected ( after PATTERN", "as in PATTERN (A B+)")
        place = exp.Literal.number(self._prev.end + 1)
        self._match_r_paren()
        return place

    def _parse_within(self) -> exp.Expr | None:
        if not self._match_text_seq("WITHIN"):
            return None
        first, unit = self._curr, None
        value = self._parse_interval() or self._parse_unary()
        if value is None:
            self.raise_error("Expected a length of time after WITHIN")
        following = self._next.text if self._next else ""
        if self._curr and not self._is_at(*CLAUSES, ")") and not misspelled_clause(self._curr.text, following):
            unit = self._parse_var(any_token=True)
        return self._spanning(self.expression(WithinClause(this=value, unit=unit)), first)

    def _parse_subset(self) -> exp.Expr | None:
        name = self._parse_name()
        if not self._match(TokenType.EQ):
            self._refuse("expected = in SUBSET", f"as in SUBSET {name.name} = (A, B)")
        if not self._match(TokenType.L_PAREN):
            self._refuse("expected ( in SUBSET", f"as in SUBSET {name.name} = (A, B)")
        members = self._parse_csv(self._parse_name)
        if not self._match(TokenType.R_PAREN):
            self._refuse("expected , or ) in SUBSET", "put a comma between two labels")
        return self.expression(Subset(this=name, expressions=members))

    def _parse_define(self) -> exp.Expr | None:
        name = self._parse_name()
        if not self._match(TokenType.ALIAS):
            self._refuse("expected AS in DEFINE", f"as in DEFINE {name.name} AS {name.name}.x > 1")
        condition = self._parse_disjunction()
        if condition is None:
            self.raise_error("Expected a condition in DEFINE")
        return self.expression(exp.Alias(this=condition, alias=name))


class Trimtab(Spark):
    """Spark SQL with MATCH_RECOGNIZE."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens and one keyword."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Spark.Tokenizer.KEYWORDS,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        }

    Parser = TrimtabParser
