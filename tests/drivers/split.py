"""Mode `split`: drivers page through one split partition with their own automatic paging, and see what the original has."""
import secrets
import subprocess
import time

import compare
import programs
import proxy

DRIVERS = ["python", "java", "go", "node", "rust"]
# As in the programs: each size in both directions.
SIZES = (5000, 999)
SHARDS = 4
STEP_SECONDS, ATTEMPTS = 180, 6


class Partition:
    """The partition, and a proxy that serves its split."""

    def __init__(self, settings):
        self.settings, self.rows = settings, settings.wide_rows
        self.keyspace, self.control = (f"drivers_{name}_{secrets.token_hex(4)}" for name in ("wide", "control"))
        self.narrows = None

    def __enter__(self):
        try:
            self.step("make", self.keyspace)
            watched = (f'\n[control]\nkeyspace = "{self.control}"\n\n[[table]]\nname = "{self.keyspace}.events"\n'
                       f'shards = {SHARDS}\nmode = "serve"\n')
            self.narrows = proxy.Proxy(self.settings.narrows, "single", self.settings.contacts, self.settings.dc, watched)
            self.step("split", self.keyspace, self.control)
            self.narrows.wait_for_split()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.ended = self.narrows.stop() if self.narrows else []
        self.step("drop", self.keyspace, self.control)

    def step(self, *arguments):
        variables = programs.environment(self.settings.contacts, self.settings, self.keyspace, (None, "default"))
        variables.update(self.variables(), DRIVER_SHARDS=str(SHARDS))
        command = [programs.VENV_PYTHON, "-B", programs.HERE / "partition.py", *arguments]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=STEP_SECONDS)
        if done.returncode:
            raise RuntimeError(f"{arguments[0]} failed: {done.stderr[-2000:]}")

    def variables(self):
        return {"DRIVER_WIDE": f"{self.keyspace}.events", "DRIVER_WIDE_ROWS": str(self.rows)}

    @property
    def pages(self):
        """Of one run: Cassandra gives a page more where the last one is full."""
        return sum(2 * (self.rows // size + 1) for size in SIZES)


def check(partition, direct, through):
    """Every complaint about what one driver saw."""
    yield from compare.compare(direct, through)
    yield from compare.incomplete(through)
    scans = [line for line in through if line["step"] == "wide"]
    asked = [(size, order) for size in SIZES for order in ("ASC", "DESC")]
    if [(line["size"], line["order"]) for line in scans] != asked:
        yield f"scans of {[(line['size'], line['order']) for line in scans]}, expected {asked}"
    yield from (f"{line['rows']} of {partition.rows} rows in the scan {line['size']} {line['order']}"
                for line in scans if line["rows"] != partition.rows)


def run_all(settings, run):
    """Yields (driver, configuration, seconds, complaints); the last is about the proxy's end."""
    since = time.monotonic()
    with Partition(settings) as partition:
        yield "(split)", (None, "-"), time.monotonic() - since, partition.narrows.complaints()
        for driver in (d for d in settings.drivers if d in DRIVERS):
            since, configuration = time.monotonic(), programs.CONFIGURATIONS[driver][0][0]
            complaints = try_driver(partition, driver, configuration, settings, run)
            yield driver, configuration, time.monotonic() - since, complaints
    yield "(stop)", (None, "-"), 0, partition.ended


def try_driver(partition, driver, configuration, settings, run):
    """Direct once; through the proxy until a run was answered from the split from its first page to its last.

    While nodes disagree about any schema, or are too slow to be asked, the original answers: that must be as equal."""
    narrows, more = partition.narrows, partition.variables()
    direct = run(driver, configuration, settings.contacts, settings, more)[0]
    for _ in range(ATTEMPTS):
        before = narrows.metric(proxy.ANSWERED)
        through = run(driver, configuration, narrows.contacts, settings, more)[0]
        answered = narrows.metric(proxy.ANSWERED) - before
        complaints = [*check(partition, direct, through), *(f"narrows logged: {line[:400]}" for line in narrows.complaints())]
        if complaints or answered == partition.pages:
            return complaints
    return [f"{answered:.0f} of {partition.pages} pages were answered from the split; {narrows.reasons()}"]
