"""The driver scenario with cqlsh: each step of statements.cql in a cqlsh of its own, one JSON line a step."""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HOST, PORT = os.environ["DRIVER_CONTACTS"].split(",")[0].rsplit(":", 1)
KEYSPACE = os.environ["DRIVER_KEYSPACE"]
REPLICATION = "{'class': 'NetworkTopologyStrategy', '%s': 1}" % os.environ["DRIVER_DC"]
CQLSH = [str(Path(sys.executable).parent / "cqlsh"), "--no-color", "--request-timeout=60", "--connect-timeout=15"]
if os.environ.get("DRIVER_PROTOCOL"):
    CQLSH.append("--protocol-version=" + os.environ["DRIVER_PROTOCOL"])


def cqlsh(*arguments):
    result = subprocess.run([*CQLSH, *arguments, HOST, PORT], capture_output=True, text=True, timeout=120)
    return result.returncode, result.stdout, result.stderr


def say(step, **facts):
    print(json.dumps({"step": step, **facts}), flush=True)


def lines(text, script):
    """Trailing spaces and the script's temporary name say nothing about the database."""
    return [line.rstrip().replace(script, "SCRIPT") for line in text.splitlines()]


def traced(output):
    """A trace's rows hold times, addresses and ids: keep that it came, and how it begins."""
    answer, found, trace = output.partition("Tracing session:")
    return {"output": answer.split("\n"), "trace": bool(found), "rows": "Execute CQL3 query" in trace}


def run(name, statements, script):
    Path(script).write_text("\n".join(statements) + "\n")
    code, output, errors = cqlsh("-k", KEYSPACE, "-f", script)
    facts = traced(output) if name == "tracing" else {"output": lines(output, script)}
    say(name, code=code, errors=lines(errors, script), **facts)


def steps():
    text = (Path(__file__).parent / "statements.cql").read_text()
    for part in re.split(r"^-- step: ", text, flags=re.M)[1:]:
        name, *statements = part.strip().split("\n")
        yield name, statements


def main():
    code, output, errors = cqlsh("-e", f"CREATE KEYSPACE {KEYSPACE} WITH replication = {REPLICATION}; USE {KEYSPACE}; DESCRIBE CLUSTER")
    say("keyspace", code=code, cluster=[line for line in output.splitlines() if line.startswith(("Cluster", "Partitioner"))], errors=errors)
    try:
        with tempfile.NamedTemporaryFile(suffix=".cql") as script:
            for name, statements in steps():
                run(name, statements, script.name)
    finally:
        cqlsh("-e", f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    say("end")


main()
