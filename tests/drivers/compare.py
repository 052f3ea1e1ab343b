"""Compares two transcripts of a driver program, and checks the lines that cannot be equal (topology)."""
import json


def transcript(output, keyspace):
    """The lines of a program as objects, its unique keyspace by a common name."""
    lines = [json.loads(line) for line in output.replace(keyspace, "KEYSPACE").splitlines()]
    return [l for l in lines if not l.get("topology")], {l["step"]: l for l in lines if l.get("topology")}


def differences(direct, through, path=""):
    """Readable differences of two JSON values, each with the path that leads to it."""
    if isinstance(direct, dict) and isinstance(through, dict):
        for key in sorted(direct.keys() | through.keys()):
            yield from differences(direct.get(key, "(absent)"), through.get(key, "(absent)"), f"{path}.{key}")
    elif isinstance(direct, list) and isinstance(through, list) and len(direct) == len(through):
        for index, (one, other) in enumerate(zip(direct, through)):
            yield from differences(one, other, f"{path}[{index}]")
    elif direct != through:
        one, other = json.dumps(direct), json.dumps(through)
        start = max(0, next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), 0) - 40)
        yield f"{path}: direct …{one[start:start + 200]}, through …{other[start:start + 200]}"


def compare(direct, through):
    """Differences of two transcripts, named by step."""
    if [l["step"] for l in direct] != [l["step"] for l in through]:
        yield f"steps: direct {[l['step'] for l in direct]}, through {[l['step'] for l in through]}"
    for number, (one, other) in enumerate(zip(direct, through)):
        yield from differences(one, other, f"line {number + 1} ({one['step']})")


def incomplete(lines):
    """What a correct run has in itself, so that two equally wrong runs do not pass."""
    steps = {line["step"] for line in lines}
    if "end" not in steps:
        yield "the program did not reach its end"
    for line in lines:
        if line["step"] == "schema" and not all(line.get("agreed", [])):
            yield f"no schema agreement: {line['agreed']}"
        if line["step"] == "concurrent" and line["right"] != line["requests"]:
            yield f"{line['right']} of {line['requests']} concurrent requests were right"
        if line["step"] == "concurrent" and line.get("connections", 1) != 1:
            yield f"concurrent requests used {line['connections']} connections"
        if line["step"] == "events" and "false" in json.dumps(line):
            yield f"an event was not seen: {json.dumps(line)}"


def topology(lines, addresses, nodes):
    """The driver sees exactly these addresses, and every one of them answered token-aware reads."""
    hosts, spread = lines.get("hosts"), lines.get("spread")
    if hosts and (hosts["addresses"] != sorted(addresses) or hosts["peers"] != nodes - 1):
        yield f"hosts: expected {sorted(addresses)} and {nodes - 1} peers, the driver saw {hosts['addresses']} and {hosts['peers']}"
    if spread and set(spread["answered"]) != set(addresses):
        yield f"spread: expected answers from {sorted(addresses)}, got {spread['answered']}"


def spread_moved(direct, through, mirrored):
    """Through mirrors each node answers for the same keys as without them."""
    if "spread" in direct and "spread" in through:
        expected = {mirrored(a): n for a, n in direct["spread"]["answered"].items()}
        if expected != through["spread"]["answered"]:
            yield f"spread: direct {expected} (by mirror), through {through['spread']['answered']}"
