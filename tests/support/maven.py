"""Java's packages for tests, fetched from Maven Central, once: they stay beside the Python packages of the environment.

They are fetched by the Ivy that comes inside Spark, as Spark itself does for `spark.jars.packages`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

# To ask whether a file is there by HEAD, and where packages have their sources, takes four times as long. The cache is
# Ivy's own, in the user's folder: packages need many of the same ones.
_SETTINGS = """
<ivysettings>
  <property name="ivy.maven.lookup.sources" value="false"/><property name="ivy.maven.lookup.javadoc" value="false"/>
  <settings defaultResolver="central" httpRequestMethod="GET"/>
  <caches lockStrategy="artifact-lock-nio"/>
  <resolvers><ibiblio name="central" m2compatible="true" useMavenMetadata="false" {}/></resolvers>
</ivysettings>"""
_WANTED = """
<ivy-module version="2.0">
  <info organisation="trimtab" module={}/><configurations><conf name="default"/></configurations>
  <dependencies>{}</dependencies>
</ivy-module>"""
_DEPENDENCY = "<dependency org={} name={} rev={} transitive={} conf='default->default'/>"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A package of Maven's, with those that it needs, or alone."""

    group: str
    name: str
    version: str
    alone: bool = False

    def __str__(self) -> str:
        """As Ivy's file has it."""
        found = (self.group, self.name, self.version, "false" if self.alone else "true")
        return _DEPENDENCY.format(*map(quoteattr, found))


def jars(name: str, artifacts: Iterable[Artifact]) -> list[Path]:
    """The files of these packages; `name` is that of the folder which has them from the first call on."""
    folder = Path(sys.prefix) / f"{name}-jars"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=sys.prefix) as work:
            _fetch(Path(work), name, artifacts)
            try:
                os.rename(Path(work, "jars"), folder)
            except OSError:  # another process was faster
                if not folder.exists():
                    raise
    return sorted(folder.glob("*.jar"))


def java() -> str:
    """The command that runs Java."""
    return str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java"


def mirror_of_central() -> str | None:
    """The mirror of Maven Central that Maven's settings of this user name, if they do."""
    settings = Path.home() / ".m2" / "settings.xml"
    mirrors = ET.parse(settings).iterfind("{*}mirrors/{*}mirror") if settings.exists() else ()
    for each in mirrors:
        of = (each.findtext("{*}mirrorOf") or "").replace(" ", "").split(",")
        if "!central" not in of and {"*", "external:*", "central"} & {*of}:
            return (each.findtext("{*}url") or "").strip().rstrip("/") + "/"
    return None


def _fetch(work: Path, name: str, artifacts: Iterable[Artifact]) -> None:
    """Put the files into `work/jars`."""
    import pyspark  # one process in many fetches anything

    [ivy] = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    settings, wanted = work / "settings.xml", work / "ivy.xml"
    near = mirror_of_central()  # without one Ivy knows where Maven Central is
    settings.write_text(_SETTINGS.format("" if near is None else f"root={quoteattr(near)}"))
    wanted.write_text(_WANTED.format(quoteattr(name), "".join(map(str, artifacts))))
    command = [java(), "-XX:TieredStopAtLevel=1", "-jar", str(ivy), "-warn", "-settings", str(settings)]
    command += ["-ivy", str(wanted), "-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if ran.returncode:
        said = "\n".join(line for line in ran.stdout.splitlines() if not line.endswith("kB)"))  # those are progress
        raise RuntimeError(
            f"Ivy found not all of {name} in {near or 'Maven Central'} "
            f"(a mirror belongs into ~/.m2/settings.xml):\n{said}"
        )
