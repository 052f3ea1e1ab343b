"""The driver programs: how each is built below target/ and started, and the configurations it runs in."""
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = ROOT / "target" / "drivers"
VENV_PYTHON = ROOT / "target" / "venv" / "bin" / "python"

# (protocol, compression); None leaves the choice to the driver. The first list runs always, the second with --all.
CONFIGURATIONS = {
    "python": ([(None, "default"), ("5", "none"), ("4", "lz4"), ("3", "snappy")],
               [("5", "lz4"), ("4", "none"), ("4", "snappy"), ("3", "none"), ("3", "lz4")]),
    "java": ([(None, "none"), ("4", "lz4")], [("5", "lz4"), ("4", "none")]),
    "go": ([(None, "lz4")], [("5", "none"), ("4", "snappy"), ("4", "lz4"), ("3", "none")]),
    "go-v1": ([(None, "snappy")], [("4", "none"), ("3", "snappy")]),
    "node": ([(None, "none")], [("3", "none")]),
    "rust": ([(None, "lz4")], [(None, "none"), (None, "snappy")]),
    "cqlsh": ([(None, "default")], [("4", "default")]),
}


class Missing(Exception):
    """A tool that a driver program needs is not on this machine."""


def tool(name, advice):
    if shutil.which(name) is None:
        raise Missing(f"{name} is not installed: {advice}")


def run(*command, **options):
    """A build step: silent when it works, loud when it does not."""
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if result.returncode:
        raise Missing(f"{' '.join(map(str, command))} failed:\n{result.stdout}{result.stderr}")


def newer(stamp, *sources):
    return stamp.exists() and all(s.stat().st_mtime <= stamp.stat().st_mtime for s in sources)


def build_venv():
    run("bash", ROOT / "tests" / "setup.sh", cwd=ROOT)


def build_java():
    tool("mvn", "install a JDK 17 and Maven")
    sources, stamp = [HERE / "java" / "pom.xml", HERE / "java" / "src" / "Main.java"], OUT / "java" / "built"
    if not newer(stamp, *sources):
        run("mvn", "-q", "-B", "-f", sources[0], f"-Dout={OUT / 'java'}", "compile")
        stamp.touch()


def build_go():
    tool("go", "install Go 1.24 or later")
    run("go", "build", "-o", OUT / "go" / "v2", ".", cwd=HERE / "go")


def build_go_v1():
    """The same main.go with the older driver's import, copied because a build tag cannot exchange an import."""
    tool("go", "install Go 1.24 or later")
    source = OUT / "go" / "v1-src"
    source.mkdir(parents=True, exist_ok=True)
    text = (HERE / "go" / "main.go").read_text()
    (source / "main.go").write_text(text.replace('gocql "github.com/apache/cassandra-gocql-driver/v2"', '"github.com/gocql/gocql"'))
    for name in ("v1.go", "go.mod", "go.sum"):
        shutil.copyfile(HERE / "go" / name, source / name)
    run("go", "build", "-tags", "v1", "-o", OUT / "go" / "v1", ".", cwd=source)


def build_node():
    tool("npm", "install Node.js 18 or later")
    package, place = HERE / "node" / "package.json", OUT / "node"
    if not newer(place / "built", package):
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package, place / "package.json")
        run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", cwd=place)
        (place / "built").touch()


def build_rust():
    tool("cargo", "install Rust with rustup")
    run("cargo", "build", "--quiet", "--example", "driver-rust", cwd=ROOT)


BUILD = {"python": build_venv, "cqlsh": build_venv, "java": build_java, "go": build_go, "go-v1": build_go_v1,
         "node": build_node, "rust": build_rust}


def build(drivers):
    """Yields each driver and why its program cannot be built, or None."""
    for driver in drivers:
        problem = None
        with locked():
            try:
                BUILD[driver]()
            except (Missing, OSError) as error:
                problem = error
        yield driver, problem


@contextlib.contextmanager
def locked():
    """Only one process at a time builds: `make test` does it ahead, beside other stages."""
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


COMMAND = {
    # The slowest first, so that none of them is left to the end.
    "java": ["java", "-cp", f"{OUT / 'java' / 'classes'}:{OUT / 'java' / 'lib' / '*'}", "Main"],
    "python": [VENV_PYTHON, HERE / "python" / "main.py"],
    "cqlsh": [VENV_PYTHON, HERE / "cqlsh" / "main.py"],
    "go": [OUT / "go" / "v2"],
    "go-v1": [OUT / "go" / "v1"],
    "node": ["node", HERE / "node" / "main.js"],
    "rust": [Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "examples" / "driver-rust"],
}


def environment(contacts, settings, keyspace, configuration):
    """What a program reads: the table in README.md."""
    protocol, compression = configuration
    variables = dict(os.environ, DRIVER_CONTACTS=",".join(contacts), DRIVER_DC=settings.dc, DRIVER_KEYSPACE=keyspace,
                     DRIVER_COMPRESSION=compression, DRIVER_CONCURRENT=str(settings.concurrent),
                     DRIVER_VECTOR="0" if settings.no_vector else "1", DRIVER_SCHEMA=str(HERE / "schema.cql"),
                     NODE_PATH=str(OUT / "node" / "node_modules"), PYTHONDONTWRITEBYTECODE="1", TZ="UTC")
    variables.pop("DRIVER_PROTOCOL", None)
    if protocol:
        variables["DRIVER_PROTOCOL"] = protocol
    return variables


def drop(contact, keyspace):
    """After a program that died: the keyspace it could not drop."""
    host, port = contact.rsplit(":", 1)
    command = [VENV_PYTHON.parent / "cqlsh", "--request-timeout=60", "-e", f"DROP KEYSPACE IF EXISTS {keyspace}", host, port]
    if subprocess.run(command, capture_output=True).returncode:
        print(f"  could not drop keyspace {keyspace}", file=sys.stderr)


if __name__ == "__main__":
    # All but those that Cargo builds, which has enough to do while this runs ahead.
    for name, problem in build([name for name in BUILD if name != "rust"]):
        print(f"{name}: {problem or 'built'}", flush=True)
