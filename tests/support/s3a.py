"""Spark's own connector for S3, which writes Spark's log of a stream into the checkpoint: fetched once.

The whole of Amazon's SDK is 600 MB in one file; the parts that the connector uses are 16.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pyspark

from tests.support.maven import Artifact, jars

SDK = "2.35.4"


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
    [client] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    [version] = re.findall(r"hadoop-client-api-(.+)\.jar", client.name)
    accelerator = "software.amazon.s3.analyticsaccelerator"
    wanted = [
        Artifact("org.apache.hadoop", "hadoop-aws", version, alone=True),
        Artifact(accelerator, "analyticsaccelerator-s3", "1.3.1", alone=True),
        *(Artifact("software.amazon.awssdk", part, SDK) for part in ("s3", "s3-transfer-manager", "sts")),
    ]
    return ",".join(map(str, jars("s3a", wanted)))
