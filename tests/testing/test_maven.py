"""Java's packages are fetched without Maven: with those that they need, or alone, and from the mirror that is set."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.maven import Artifact, jars, mirror_of_central

MIRRORS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>
  <mirror><id>a</id><mirrorOf>external:http:*</mirrorOf><url>http://0.0.0.0/</url></mirror>
  <mirror><id>b</id><mirrorOf>*, !central</mirrorOf><url>https://others.invalid/</url></mirror>
  {}</mirrors></settings>"""
MIRROR = "<mirror><id>c</id><mirrorOf>{}</mirrorOf><url>{}</url></mirror>"
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>{0}</artifactId>
  <version>1.0</version><dependencies>{1}</dependencies></project>"""
NEEDED = "<dependency><groupId>org.example</groupId><artifactId>{}</artifactId><version>1.0</version>{}</dependency>"


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository which the settings of the user name, who has an environment and a cache without packages."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Divy.default.ivy.user.dir={tmp_path}/ivy")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder = tmp_path / "mirror"
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(MIRRORS.format(MIRROR.format("central", folder.as_uri())))
    for name, needed in (
        ("top", NEEDED.format("below", "") + NEEDED.format("tested", "<scope>test</scope>")),
        ("below", ""),
    ):
        place = folder / "org" / "example" / name / "1.0"
        place.mkdir(parents=True)
        (place / f"{name}-1.0.pom").write_text(POM.format(name, needed))
        (place / f"{name}-1.0.jar").write_bytes(name.encode())
    return folder


@pytest.mark.spark  # Ivy is inside Spark
def test_packages_come_with_those_that_they_need_or_alone_and_once(mirror: Path) -> None:
    found = jars("both", [Artifact("org.example", "top", "1.0")])
    assert [(each.name, each.read_bytes()) for each in found] == [("below-1.0.jar", b"below"), ("top-1.0.jar", b"top")]
    assert [each.name for each in jars("one", [Artifact("org.example", "top", "1.0", alone=True)])] == ["top-1.0.jar"]
    mirror.rename(mirror.with_name("away"))
    assert jars("both", []) == found
    with pytest.raises(RuntimeError, match=r"found not all of more in file:[^ ]*/mirror/ .*\n(.*\n)*.*other;1.0"):
        jars("more", [Artifact("org.example", "other", "1.0")])


@pytest.mark.parametrize("of", ["*", "central", "other,central", "external:*"])
def test_a_mirror_that_maven_would_take_is_taken(mirror: Path, of: str) -> None:
    settings = mirror.parent / ".m2" / "settings.xml"
    settings.write_text(MIRRORS.format(MIRROR.format(of, "https://near.invalid/maven")))
    assert mirror_of_central() == "https://near.invalid/maven/"
    settings.write_text(MIRRORS.format(""))
    assert mirror_of_central() is None
    settings.unlink()
    assert mirror_of_central() is None
