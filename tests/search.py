"""Look for what breaks a law, with new examples, for `--minutes`: `python -m tests.search --minutes 10`.

Hypothesis draws other examples in every round. What fails is made small before it is shown, and is tried first from
then on: its database is `.hypothesis/`.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rounds until the time is over or something is found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("where", nargs="*", default=["tests", "lab/tests"], help="files or folders of tests")
    asked = options.parse_args(arguments)
    until = time.monotonic() + 60 * asked.minutes
    rounds = 0
    while (left_s := until - time.monotonic()) > 0:
        seed = random.randrange(1 << 32)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-m", "hypothesis and unit"]
        command += [f"--hypothesis-seed={seed}", *asked.where]
        print(f"round {rounds + 1}, seed {seed}, {left_s / 60:.1f} minutes left", flush=True)  # noqa: T201 - a command
        try:
            done = subprocess.run(command, env=os.environ | {"TRIMTAB_SEARCH": "1"}, timeout=left_s, check=False)
        except subprocess.TimeoutExpired:
            break
        if done.returncode != 0:
            return done.returncode
        rounds += 1
    print(f"nothing found in {asked.minutes:g} minutes, {rounds} whole rounds")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
