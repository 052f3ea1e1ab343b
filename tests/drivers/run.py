#!/usr/bin/env python3
"""Runs each driver program against Cassandra and through Narrows, and compares what they saw.

    run.py --driver python,java --mode single,mirror --contact 127.0.1.1:9042,127.0.1.2:9042 --narrows target/debug/narrows
"""
import argparse
import json
import secrets
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import compare
import programs
import proxy
import split

PROGRAM_SECONDS = 300
# Its driver prints a stack trace when another program changes a schema at the moment it ends, and all that it prints is compared.
ALONE = ("cqlsh",)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", default=",".join(programs.COMMAND), help="comma-separated (default: all)")
    parser.add_argument("--mode", default="single,mirror,split",
                        help="of single, mirror, split (paging through a split partition), direct (compares two direct runs)")
    parser.add_argument("--contact", default="127.0.1.1:9042,127.0.1.2:9042,127.0.1.3:9042", help="every node of the cluster")
    parser.add_argument("--dc", default="dc1")
    parser.add_argument("--narrows", default=str(programs.ROOT / "target" / "debug" / "narrows"))
    parser.add_argument("--at-once", type=int, default=4, help="programs that run at a time (they mostly wait for schema agreement)")
    parser.add_argument("--concurrent", type=int, default=5000)
    parser.add_argument("--wide-rows", type=int, default=100_000, help="of the partition of mode split")
    parser.add_argument("--no-vector", action="store_true", help="for Cassandra before 5.0")
    parser.add_argument("--all", action="store_true", help="every protocol version and compression of each driver")
    settings = parser.parse_args()
    settings.drivers, settings.modes = settings.driver.split(","), settings.mode.split(",")
    settings.contacts = settings.contact.split(",")
    unknown = set(settings.drivers) - set(programs.COMMAND) | set(settings.modes) - {"single", "mirror", "split", "direct"}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; drivers are {', '.join(programs.COMMAND)}")
    # Its programs have nothing in common with those of the others but the drivers.
    settings.split = "split" in settings.modes
    settings.modes = [mode for mode in settings.modes if mode != "split"]
    return settings


class Failed(Exception):
    pass


def run(driver, configuration, contacts, settings, more=None):
    """One run of a program in a keyspace of its own: its comparable lines and its topology lines. `more` are variables."""
    keyspace = f"drivers_{driver.replace('-', '_')}_{secrets.token_hex(4)}"
    variables = programs.environment(contacts, settings, keyspace, configuration) | (more or {})
    process = subprocess.Popen([str(c) for c in programs.COMMAND[driver]], env=variables, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=PROGRAM_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        errors += f"\nkilled after {PROGRAM_SECONDS} s"
    if process.returncode:
        programs.drop(settings.contacts[0], keyspace)
        last = output.splitlines()[-1][:200] if output else "(nothing)"
        raise Failed(f"exit {process.returncode} via {contacts[0]}; last line: {last}\n{errors[-3000:]}")
    lines, topology = compare.transcript(output, keyspace)
    return lines, topology, output


def check(direct, through, mode, addresses, real):
    """Every complaint about the run through the proxy."""
    yield from compare.compare(direct[0], through[0])
    yield from compare.incomplete(through[0])
    yield from compare.topology(through[1], addresses, len(addresses))
    if mode == "mirror":
        yield from compare.spread_moved(direct[1], through[1], proxy.mirrored)
    if mode != "direct":
        yield from (f"the real address {address} was seen" for address in real if address in through[2])


def try_configuration(driver, configuration, modes, proxies, settings):
    """[(mode, seconds, complaints)]; the direct run is made once for all modes."""
    real = [c.rsplit(":", 1)[0] for c in settings.contacts]
    direct, wrong = None, []
    try:
        direct = run(driver, configuration, settings.contacts, settings)
        wrong = [*compare.incomplete(direct[0]), *compare.topology(direct[1], real, len(real))]
    except (Failed, json.JSONDecodeError) as failure:
        wrong = [str(failure)]
    results = []
    for mode in modes:
        since = time.monotonic()
        complaints = [f"direct: {w}" for w in wrong] or try_mode(driver, configuration, mode, direct, proxies.get(mode), settings)
        results.append((mode, time.monotonic() - since, complaints))
    return results


def try_mode(driver, configuration, mode, direct, narrows, settings):
    """Every complaint about a run in this mode; `direct` has no proxy, and compares two direct runs."""
    real = [c.rsplit(":", 1)[0] for c in settings.contacts]
    contacts, addresses = (narrows.contacts, narrows.addresses) if narrows else (settings.contacts, real)
    try:
        complaints = list(check(direct, run(driver, configuration, contacts, settings), mode, addresses, real))
    except (Failed, json.JSONDecodeError) as failure:
        complaints = [str(failure)]
    logged = narrows.complaints() if narrows else []
    return complaints + [f"narrows logged: {line[:400]}" for line in logged]


def plan(settings):
    """Mirror mode and the encodings have nothing to do with each other: it runs with a driver's first configuration only, unless --all."""
    for driver in settings.drivers if settings.modes else []:
        usual, more = programs.CONFIGURATIONS[driver]
        yield driver, usual[0], settings.modes
        for configuration in usual[1:] + (more if settings.all else []):
            modes = [m for m in settings.modes if settings.all or m != "mirror"]
            if modes:
                yield driver, configuration, modes


def build(drivers):
    """Each a test of its own: what cannot be built fails without hiding the others."""
    for driver, problem in programs.build(drivers):
        yield driver, (None, "-"), "build", 0, [f"cannot build: {problem}"] if problem else []


def try_split(settings):
    """Every driver on the split partition, then the end of the proxy."""
    try:
        for driver, configuration, seconds, complaints in split.run_all(settings, run):
            yield driver, configuration, "split", seconds, complaints
    except (Failed, RuntimeError, OSError, json.JSONDecodeError, subprocess.TimeoutExpired) as failure:
        yield "(partition)", (None, "-"), "split", 0, [str(failure)]


def side_by_side(planned, at_once, proxies, settings):
    with ThreadPoolExecutor(at_once) as lanes:
        running = {lanes.submit(try_configuration, driver, configuration, modes, proxies, settings): (driver, configuration)
                   for driver, configuration, modes in planned}
        for done in as_completed(running):
            yield from ((*running[done], *result) for result in done.result())


def try_modes(settings):
    """Several programs at a time, on proxies that they share: what a proxy logs may be told of another program than caused it."""
    proxies = {}
    try:
        for mode in settings.modes:
            if mode != "direct":
                proxies[mode] = proxy.Proxy(settings.narrows, mode, settings.contacts, settings.dc)
        planned = list(plan(settings))
        yield from side_by_side([one for one in planned if one[0] not in ALONE], settings.at_once, proxies, settings)
        yield from side_by_side([one for one in planned if one[0] in ALONE], 1, proxies, settings)
    finally:
        ends = {mode: narrows.stop() for mode, narrows in proxies.items()}
    for mode, complaints in ends.items():
        yield "(stop)", (None, "-"), mode, 0, complaints


def tell(driver, configuration, mode, seconds, complaints):
    """One line as all tests have it, after what is wrong."""
    for complaint in complaints[:20]:
        print(f"    {complaint}", flush=True)
    protocol, compression = configuration
    name = "::".join((driver, mode, f"v{protocol}" if protocol else "default", compression))
    print(f"test {name} ... {'FAILED' if complaints else 'ok'} <{seconds:.3f}s>", flush=True)


def main():
    settings = arguments()
    results = []

    def note(*result):
        tell(*result)
        results.append(not result[-1])

    for result in build(list(settings.drivers)):
        note(*result)
        if result[-1]:
            settings.drivers.remove(result[0])
    for result in try_modes(settings):
        note(*result)
    for result in try_split(settings) if settings.split else ():
        note(*result)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
