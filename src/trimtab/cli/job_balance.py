"""`balance` and `scale` of a job file: a name, or a section with the fields of `Balance` and `Scale`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

from trimtab.cli.toml import MISSING, Section
from trimtab.deciding.placement import check_engines
from trimtab.deciding.policy import DEFAULT, Balance, Measure, Scale, check_scale
from trimtab.errors import JobError
from trimtab.language.mistakes import did_you_mean
from trimtab.planning.registry import INSTEAD, POLICIES, no_policy

NONE = "none"
"""How a job file writes None, which TOML doesn't have."""

Rule = TypeVar("Rule", Balance, Scale)


def read_balance_and_scale(
    settings: Section, engines: int | None, key_groups: int
) -> tuple[Balance | None, Scale | None]:
    """How a job balances and scales; mistakes are noted, and defaults returned instead."""
    balance, scale = _balance(settings), _scale(settings)
    if scale is not None:
        try:
            check_engines(scale.max_engines, key_groups)
            check_scale(scale, balance, engines)
        except JobError as error:
            settings.wrong("scale", error.message, error.hint)
    return balance, scale


def _balance(settings: Section) -> Balance | None:
    if not isinstance(settings.values.get("balance"), dict):
        name = _policy(settings, "balance", NONE)
        return None if name == NONE else DEFAULT if name is None else Balance(planner=name)
    section = settings.section("balance")
    assert section is not None
    words = {"planner": _policy(section, "planner"), "measure": section.word("measure", [m.value for m in Measure])}
    given = {key: word for key, word in words.items() if word is not None} | _numbers(section, Balance)
    section.finish()
    return _made(section, Balance, given) or DEFAULT


def _scale(settings: Section) -> Scale | None:
    section = settings.section("scale")
    if section is None:
        return None
    given = _numbers(section, Scale)
    section.finish()
    if "max_engines" not in section.values:
        section.wrong("max_engines", MISSING, "write how many engines there may be: max_engines = 8")
    return _made(section, Scale, given) if "max_engines" in given else None


def _policy(section: Section, key: str, *others: str) -> str | None:
    """The name of a policy, or one of the other words."""
    name, known = section.text(key), (*POLICIES, *others)
    if name is None or name in known:
        return name
    message, hint = no_policy(name)
    if name not in INSTEAD:
        hint = did_you_mean(name, known, otherwise=f"write {', '.join(known)}")
    section.wrong(key, message, hint)
    return None


def _numbers(section: Section, rule: type) -> dict[str, Any]:
    """The fields of a rule that are numbers, as far as the file has them, with None for "none"."""
    given: dict[str, Any] = {}
    for name, kind in get_type_hints(rule).items():
        kinds = {kind, *get_args(kind)}
        may_be_none = type(None) in kinds
        if may_be_none and section.values.get(name) == NONE:
            section.text(name)
            given[name] = None
        elif kinds & {int, float}:
            value = section.number(name, whole=int in kinds, else_write=NONE if may_be_none else "")
            given |= {} if value is None else {name: value}
    return given


def _made(section: Section, make: Callable[..., Rule], given: dict[str, Any]) -> Rule | None:
    try:
        return make(**given)
    except JobError as error:
        first = error.message.split(" ", 1)[0]
        section.wrong(first if first in given else "", error.message, error.hint)
    return None
