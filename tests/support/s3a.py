"""Spark's own connector for S3, which writes Spark's log of a stream into the checkpoint: fetched by Maven, once.

The whole of Amazon's SDK is 600 MB in one file; the parts that the connector uses are 16.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

JARS = Path(sys.prefix) / "s3a-jars"
SDK = "2.35.4"
_PART = (
    "<dependency><groupId>software.amazon.awssdk</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
_POM = """
<project>
  <modelVersion>4.0.0</modelVersion><groupId>trimtab</groupId><artifactId>s3a</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>{}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
    <dependency>
      <groupId>software.amazon.s3.analyticsaccelerator</groupId><artifactId>analyticsaccelerator-s3</artifactId>
      <version>1.3.1</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
    {}
  </dependencies>
</project>"""


def s3a_settings(port: int) -> dict[str, str]:
    """The settings with which Spark reads and writes `s3a://` on a server of this machine."""
    found = {
        "endpoint": f"http://127.0.0.1:{port}",
        "endpoint.region": "eu-north-1",
        "path.style.access": "true",
        "input.stream.type": "classic",
        "access.key": "id",
        "secret.key": "secret",
    }
    return {"spark.jars": _jars(), **{f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items()}}


@functools.cache
def _jars() -> str:
    if not JARS.exists():
        [client] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
        [version] = re.findall(r"hadoop-client-api-(.+)\.jar", client.name)
        parts = "".join(_PART.format(name, SDK) for name in ("s3", "s3-transfer-manager", "sts"))
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "pom.xml").write_text(_POM.format(version, parts))
            command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
            subprocess.run([*command, f"-DoutputDirectory={folder}/jars"], cwd=folder, check=True)
            shutil.move(Path(folder, "jars"), JARS)
    return ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
