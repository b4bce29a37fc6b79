"""Experiments that fail before a verdict."""

from __future__ import annotations

import os
from dataclasses import replace

from lab.tests.tiny import tiny
from trimtab.errors import BalanceError
from trimtab_lab.experiment import Results, Settings


def divide(_settings: Settings) -> Results:
    raise ZeroDivisionError("nothing to share")


def ask_too_much(_settings: Settings) -> Results:
    raise BalanceError("plan.budget", "too much was asked", "ask less")


def die(_settings: Settings) -> Results:
    os._exit(7)


EXPERIMENTS = (
    replace(tiny("broken-divides"), run=divide),
    replace(tiny("broken-asks"), run=ask_too_much),
    replace(tiny("broken-dies"), run=die),
)
