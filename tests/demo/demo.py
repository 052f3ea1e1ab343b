"""The story of `make demo`: three partitions, too wide or too full of tombstones, are found, split, proven equal and read
from their splits. Whatever is not as it is told ends it with an error."""

import os
import sys
import time

import compare
import readings
from readings import ALARMS, DAY, GATE, GATE_ROWS, PUMP, PUMP_ROWS, VALVE, VALVE_ROWS
from show import Bar, duration, heading, say, table
from world import ADMIN, BINARY, CASSANDRA, IS_OPTIMISED, NARROWS, SERVED_SECONDS_MAX, NotAsTold, World, eventually

NEWEST = readings.select("*", VALVE, " LIMIT 10")
NEWEST_ALARMS = readings.select("*", GATE, " LIMIT 10")
# Warnings count if they are at least ten seconds apart.
WARNINGS_APART_SECONDS = 10.5


def main():
    sys.stdout.reconfigure(line_buffering=True)
    with World(keep=os.environ.get("KEEP") == "1") as world:
        start(world)
        direct, through = world.session(CASSANDRA), world.session(NARROWS)
        load(through)
        read(direct, through)
        split(world)
        world.flush()
        prove(world, direct, through)
        before_and_after(world, direct, through)
        end(world)


def start(world):
    heading(f"Starting Apache Cassandra 5.0 on {CASSANDRA[0]}:{CASSANDRA[1]}",
            "One ordinary node, with tables plant.reading and plant.alarm ((sensor, day), ts) that nobody can change any more.")
    world.start_cassandra()
    readings.create(world.session(CASSANDRA))
    heading(f"Starting Narrows in front of it, on {NARROWS[0]}:{NARROWS[1]}",
            "The application's driver connects here instead, and nothing else changes. To save time, the demo counts",
            "partitions of plant.reading as wide from 4 MiB (default 64 MiB) and guards all for 1 s: target/demo/narrows.toml.",
            f"{ALARMS} is watched without any settings.")
    world.start_narrows()
    if "REDIS_URL" in os.environ:
        say("Layouts of splits are cached in the Redis of REDIS_URL.")


def load(through):
    heading(f"Writing the readings of {DAY}, through Narrows",
            "They get write times of that day, because Narrows does not split a partition that is still written.",
            f"Deletions come before the rows of {VALVE} and {GATE}, as in a queue or after a clean-up.")
    bar = Bar(f"{PUMP:<8}", PUMP_ROWS)
    readings.load_rows(through, PUMP, PUMP_ROWS, bar)
    bar.done(f"{PUMP_ROWS:,} rows of 1 KB")
    for sensor, rows, deletions in ((VALVE, VALVE_ROWS, readings.DELETIONS), (GATE, GATE_ROWS, readings.GATE_DELETIONS)):
        bar = Bar(f"{sensor:<8}", rows + deletions)
        readings.load_rows(through, sensor, rows, bar)
        readings.load_deletions(through, sensor, deletions, bar)
        bar.done(f"{rows:,} rows of 1 KB, {deletions:,} deletions before them")


def read(direct, through):
    heading("Reading them, as the application does",
            "Nothing is split yet: Cassandra's answers and errors pass unchanged, and Narrows looks at them.")
    say(f"{GATE:<8}  newest 10 rows in {read_with_warning(through)}")
    time.sleep(WARNINGS_APART_SECONDS)
    read_with_warning(through)
    read_later = time.monotonic() + WARNINGS_APART_SECONDS
    for session in (direct, through):
        rows, seconds = compare.timed(session, NEWEST)
        if rows is not None:
            raise NotAsTold(f"{VALVE} can be read in spite of its tombstones")
    say(f"{VALVE:<8}  newest 10 rows: ReadFailure 0x1300 after {duration(seconds)}, at 100,000 tombstones")
    rows, seconds = compare.timed(through, readings.select("*", PUMP))
    if rows is None or len(rows) != PUMP_ROWS:
        raise NotAsTold(f"{PUMP} does not have its {PUMP_ROWS} rows")
    say(f"{PUMP:<8}  all {len(rows):,} rows in {duration(seconds)}")
    time.sleep(max(0, read_later - time.monotonic()))
    read_with_warning(through)
    say(f"{GATE:<8}  the same twice more, some seconds apart: one warning says little, three are enough")


def read_with_warning(through):
    """The newest alarms: how long they take, and what Cassandra warns of."""
    rows, warnings, seconds = compare.warned(through, NEWEST_ALARMS)
    warnings = [warning.split(" for query")[0] for warning in warnings if "tombstone" in warning]
    if rows != 10 or not warnings:
        raise NotAsTold(f"{GATE} is read without a warning of its tombstones")
    return f"{duration(seconds)}, with a warning: {warnings[0]}"


def split(world):
    heading("Narrows has found all three, and splits them",
            "It found one by the size of a scan, one by a failed read, and one by Cassandra's warnings. It reads and plans each,",
            "guards it, copies it cell by cell with write times and expiries, and compares: clients only ever read an equal copy.")
    narrows = world.narrows
    narrows.wait_until_found(PUMP, VALVE, GATE)
    narrows.show("splits", "watch", "--until-done")
    for sensor, found in narrows.splits().items():
        if not found["in_service"]:
            raise NotAsTold(f"{sensor} is {found['state']}: {found['reason'] or 'it is not known why'}")
    reasons = {sensor: found["found_by"] for sensor, found in narrows.splits().items()}
    if reasons != {PUMP: "size", VALVE: "tombstones", GATE: "tombstones"}:
        raise NotAsTold(f"found by {reasons}")
    narrows.show("splits", "list")
    heading(f"Why {GATE} is split, with 2 MB under default settings",
            "It is judged by what drew attention to it: tombstones hurt, however few rows are left between them.")
    narrows.show("splits", "show", ALARMS, f"'{GATE}'", f"'{DAY}'")


def prove(world, direct, through):
    narrows = world.narrows
    heading("Where the SELECT that failed is answered from now",
            "Buckets hold only live rows, in the original's order, so LIMIT and paging stop as early as on the original.")
    narrows.show("explain", NEWEST)
    heading("Every row, direct on Cassandra and through Narrows",
            "The driver compares all columns, write times and TTLs of both sides: an application sees no difference.")
    for sensor, count, rest in ((PUMP, PUMP_ROWS, ""), (VALVE, VALVE_ROWS, compare.PAST), (GATE, GATE_ROWS, compare.PAST)):
        wait_until_served(narrows, through, sensor)
        before = narrows.answered_from_splits(), narrows.answered_by_originals()
        bar = Bar(f"{sensor:<8}", count)
        rows, expiring = compare.prove_equal(direct, through, sensor, rest, bar)
        from_splits = narrows.answered_from_splits() - before[0]
        by_originals = narrows.answered_by_originals() - before[1]
        if rows != count or not expiring or not from_splits or by_originals:
            raise NotAsTold(f"{sensor}: {rows} rows, {expiring} expiring, {by_originals:.0f} pages not from the split")
        bar.done(f"{rows:,} rows equal, {expiring} of them with a TTL, all from the split,")


def wait_until_served(narrows, through, sensor):
    """Proxies learn of a new split within two polls."""
    def is_served():
        before = narrows.answered_from_splits()
        compare.timed(through, readings.select("ts", sensor, " LIMIT 1"))
        return narrows.answered_from_splits() > before

    if not eventually(is_served, SERVED_SECONDS_MAX, pause=0.5):
        raise NotAsTold(f"{sensor} is split, but not read from the split within {SERVED_SECONDS_MAX} s")


def before_and_after(world, direct, through):
    heading("Before and after",
            "The same SELECTs in turns, medians after a warm-up, all on one machine and from its caches. 41 MiB are",
            f"no trouble for Cassandra there: {PUMP} shows what Narrows costs, {VALVE} and {GATE} what it is for.")
    narrows, rows, sensor = world.narrows, [], None
    titles = {PUMP: f"{PUMP}, {PUMP_ROWS:,} rows", VALVE: f"{VALVE}, {VALVE_ROWS:,} rows behind {readings.DELETIONS:,} tombstones",
              GATE: f"{GATE}, {GATE_ROWS:,} rows behind {readings.GATE_DELETIONS:,} tombstones"}
    for case in compare.cases():
        if case.sensor != sensor:
            sensor = case.sensor
            rows.append((titles[sensor],))
        by_originals = narrows.answered_by_originals()
        rows.append((case.name, *case.measure(direct, through)))
        if narrows.answered_by_originals() > by_originals:
            raise NotAsTold(f"{sensor}, {case.name}: not answered from the split")
    table(("", "original, direct", "split, through Narrows"), rows)
    if not IS_OPTIMISED:
        say("(Narrows is a debug build here, which says little about its own speed: `make demo RELEASE=1`.)")


def end(world):
    heading("Everything was as described")
    say("The originals are unchanged. One command rolls a split back, and the original answers again.")
    if not world.keep:
        say("Stopping Cassandra and Narrows; `make demo KEEP=1` leaves them running for you to look around.")
        return
    key = f"plant.reading \"'{PUMP}'\" \"'{DAY}'\""
    config = f"-c {world.narrows.config}"
    say("Cassandra and Narrows still run, for you to look around:",
        f"{BINARY} splits list {config}",
        f"{BINARY} splits show {key} {config}",
        f"{BINARY} splits rollback {key} {config}",
        f"{BINARY} explain \"{readings.select('*', PUMP, ' LIMIT 10')}\" {config}",
        f"make cqlsh PORT={NARROWS[1]}; make cqlsh HOST={CASSANDRA[0]}      through Narrows; direct",
        f"curl {ADMIN[0]}:{ADMIN[1]}/metrics; less {world.narrows.log_file}")


if __name__ == "__main__":
    try:
        main()
    except NotAsTold as error:
        sys.exit(f"\nThe demo ends here: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
