"""One stage at work: runs commands, shows and keeps what they print, and reads the result of every test from it.

All tests, in whatever language, report in the words of Rust's test harness: `test NAME ... ok <1.234s>`."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "target" / "tmp" / "tests"
RESULT = re.compile(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b(?:.* <([\d.]+)s>)?")
# A command that takes longer hangs. Nothing that works comes near, not even beside busy loops.
COMMAND_SECONDS_MAX = 3600 * max(1, int(os.environ.get("SCALE") or 1))


class CannotRun(Exception):
    """What a stage needs did not work, so the rest of the stage was not run."""


@dataclasses.dataclass
class Outcome:
    """How a stage ended. Times are by test, for those that tell theirs."""

    stage: str
    log: Path
    passed: set[str] = dataclasses.field(default_factory=set)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    times: dict[str, float] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


class Stage:
    def __init__(self, name: str, logs: Path = LOGS) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.outcome = Outcome(name, logs / f"{name}.log")
        self.log = self.outcome.log.open("w", encoding="utf-8")

    def run(self, steps) -> Outcome:
        """Does what `steps` says; whatever keeps it from its end is a failure of the stage."""
        began = time.monotonic()
        self.say(f"=== {self.outcome.stage}")
        try:
            steps(self)
        except CannotRun as reason:
            self.fail("(stage)", f"could not run: {reason}")
        except OSError as error:
            self.fail("(stage)", f"could not run: {error}")
        if not self.outcome.passed and not self.outcome.failed:
            self.fail("(stage)", "no test was run")
        self.outcome.seconds = time.monotonic() - began
        self.log.close()
        return self.outcome

    def check(self, name: str, *command: str, **environment: str) -> None:
        """A command that is a test by itself."""
        began = time.monotonic()
        code = self.execute(command, environment)
        self.say(f"test {name} ... {'FAILED' if code else 'ok'} <{time.monotonic() - began:.3f}s>")

    def need(self, *command: str, output: Path | None = None) -> None:
        """A command that must work for the rest to make sense."""
        if code := self.execute(command, {}, output):
            raise CannotRun(f"`{' '.join(command)}` ended with {code}")

    def tests(self, *command: str, **environment: str) -> None:
        """A command that reports its tests one by one."""
        before = len(self.outcome.passed), len(self.outcome.failed)
        code = self.execute(command, environment)
        passed, failed = len(self.outcome.passed) - before[0], len(self.outcome.failed) - before[1]
        name = Path(command[0]).name
        if code and not failed:
            self.fail(f"({name})", f"ended with {code}, and no test said that it failed")
        if not passed and not failed:
            self.fail(f"({name})", "ran no test")

    def fail(self, name: str, reason: str) -> None:
        self.say(f"{self.outcome.stage} {name}: {reason}")
        self.outcome.failed[name] = reason

    def execute(self, command: tuple[str, ...], environment: dict[str, str], output: Path | None = None) -> int:
        """Runs it to its end; with `output`, its stdout goes there and only its stderr is shown."""
        self.say(f"$ {' '.join(command)}")
        with output.open("wb") if output else open(os.devnull, "wb") as file:
            process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                stdout=file if output else subprocess.PIPE, stderr=subprocess.PIPE if output else subprocess.STDOUT,
                # Together with all that it starts, it can be ended as one.
                start_new_session=True)
        watchdog = threading.Timer(COMMAND_SECONDS_MAX, end, [process])
        watchdog.daemon = True
        watchdog.start()
        try:
            for line in process.stderr if output else process.stdout:
                self.say(line.decode(errors="replace").rstrip("\n"))
            return process.wait()
        except BaseException:
            end(process)
            raise
        finally:
            watchdog.cancel()

    def say(self, line: str) -> None:
        print(line, flush=True)
        self.log.write(line + "\n")
        self.log.flush()
        if found := RESULT.match(line):
            self.note(*found.groups())

    def note(self, name: str, result: str, seconds: str | None) -> None:
        if result == "ok":
            self.outcome.passed.add(name)
        elif result == "FAILED":
            self.outcome.failed[name] = f"see {self.outcome.log.relative_to(ROOT)}"
        if seconds:
            self.outcome.times[name] = float(seconds)


def end(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
