"""`trimtab demo --without-spark`: synthetic trades, a query over them, and a picture."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from trimtab.cli.main import main
from trimtab_lab.workloads.ticks import market_ticks


def test_the_demo_prints_matches_and_draws_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--without-spark", "--rows", "6000", "--out", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr().out
    assert "MATCH_RECOGNIZE" in printed
    assert "rows a second" in printed
    assert "the same answer" in printed
    assert "fall_percent" in printed
    picture = (tmp_path / "new" / "v_shapes.png").read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1600, 900)
    assert len(picture) < 150_000


def test_a_demo_too_small_to_find_anything_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--without-spark", "--rows", "10", "--out", str(tmp_path)]) == 0
    assert "nothing to draw" in capsys.readouterr().out
    assert main(["demo", "--without-spark", "--rows", "0", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("error[input.rows]: ")


def test_ticks_are_in_order_of_time_skewed_and_in_cents() -> None:
    ticks = market_ticks(20_000, 10, seed=3)
    times = ticks["ts"].to_numpy()
    assert np.all(times[1:] >= times[:-1])
    prices = ticks["price"].to_numpy()
    assert np.all(prices > 0)
    assert np.allclose(prices * 100, np.round(prices * 100))
    counts = ticks["symbol"].value_counts().to_pylist()
    shares = sorted((each["counts"] for each in counts), reverse=True)
    assert len(shares) == 10
    assert shares[0] > 5 * shares[-1]


def test_ticks_depend_on_the_seed_alone() -> None:
    assert market_ticks(500, 30, seed=1).equals(market_ticks(500, 30, seed=1))
    assert not market_ticks(500, 30, seed=1).equals(market_ticks(500, 30, seed=2))
