"""Java's packages for tests, fetched by Maven, once: they stay beside the Python packages of the environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_POM = """
<project>
  <modelVersion>4.0.0</modelVersion><groupId>trimtab</groupId><artifactId>{}</artifactId><version>1</version>
  <dependencies>{}</dependencies>
</project>"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A package of Maven's, with those that it needs, or alone."""

    group: str
    name: str
    version: str
    alone: bool = False

    def __str__(self) -> str:
        """As a pom has it."""
        return _DEPENDENCY.format(self.group, self.name, self.version, _ALONE if self.alone else "")


def jars(name: str, artifacts: Iterable[Artifact]) -> list[Path]:
    """The files of these packages; `name` is that of the folder which has them from the first call on."""
    folder = Path(sys.prefix) / f"{name}-jars"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=sys.prefix) as work:
            Path(work, "pom.xml").write_text(_POM.format(name, "".join(map(str, artifacts))))
            command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
            subprocess.run([*command, f"-DoutputDirectory={work}/jars"], cwd=work, check=True)
            try:
                os.rename(Path(work, "jars"), folder)
            except OSError:  # another process was faster
                if not folder.exists():
                    raise
    return sorted(folder.glob("*.jar"))
