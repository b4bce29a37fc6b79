"""`balance` and `scale` of a job file: a name, or a section with the fields of `Balance` and `Scale`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from trimtab.cli.toml_section import Section
from trimtab.deciding.placement import check_engines
from trimtab.deciding.policy import DEFAULT, Balance, Measure, Scale, check_scale
from trimtab.errors import JobError
from trimtab.language.mistakes import did_you_mean
from trimtab.planning.registry import INSTEAD, POLICIES, no_policy

NONE = "none"
"""How a job file writes None, which TOML doesn't have."""

_WHOLE = ("patience", "period_batches", "max_moves", "max_state_bytes", "min_engines", "max_engines",
          "cool_down_batches")  # fmt: skip
_MAYBE_NONE = ("max_rstd", "max_load_distance", "max_moves", "max_state_bytes", "interval_s")
_POLICY = ("max_rstd", "max_load_distance", "patience", "period_batches", "period_s", "max_moves", "max_state_bytes",
           "half_life_batches", "min_gain", "time_limit_s")  # fmt: skip
_SCALE = ("min_engines", "max_engines", "target", "low", "high", "cool_down_batches", "cool_down_s", "interval_s")

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
        name = settings.text("balance")
        if name is None:
            return DEFAULT
        if name in POLICIES:
            return Balance(planner=name)
        if name != NONE:
            message, hint = no_policy(name)
            if name not in INSTEAD:
                hint = did_you_mean(name, (*POLICIES, NONE), otherwise=f"write {', '.join(POLICIES)} or {NONE}")
            settings.wrong("balance", message, hint)
        return None
    section = settings.section("balance")
    assert section is not None
    words = _word(section, "planner", tuple(POLICIES)) | _word(section, "measure", [each.value for each in Measure])
    given = words | _numbers(section, _POLICY)
    section.finish()
    return _made(section, Balance, given) or DEFAULT


def _scale(settings: Section) -> Scale | None:
    section = settings.section("scale")
    if section is None:
        return None
    given = _numbers(section, _SCALE)
    section.finish()
    if "max_engines" not in section.values:
        section.wrong("max_engines", "it is missing", "write how many engines there may be: max_engines = 8")
    return _made(section, Scale, given) if "max_engines" in given else None


def _word(section: Section, key: str, known: Sequence[str]) -> dict[str, str]:
    word = section.text(key)
    if word is None or word in known:
        return {} if word is None else {key: word}
    message, hint = f'"{word}" is not one', did_you_mean(word, known, otherwise=f"write {', '.join(known)}")
    section.wrong(key, *(no_policy(word) if word in INSTEAD else (message, hint)))
    return {}


def _numbers(section: Section, names: Sequence[str]) -> dict[str, Any]:
    """The settings that the file has, with None for "none"."""
    given: dict[str, Any] = {}
    for name in names:
        may_be_none = name in _MAYBE_NONE
        if may_be_none and section.values.get(name) == NONE:
            section.text(name)
            given[name] = None
        elif (value := section.number(name, whole=name in _WHOLE, else_write=NONE if may_be_none else "")) is not None:
            given[name] = value
    return given


def _made(section: Section, make: Callable[..., Rule], given: dict[str, Any]) -> Rule | None:
    try:
        return make(**given)
    except JobError as error:
        first = error.message.split(" ", 1)[0]
        section.wrong(first if first in given else "", error.message, error.hint)
    return None
