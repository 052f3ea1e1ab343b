"""Steady reads of known rows through driver sessions, with a note of when each succeeded, failed, or was wrong."""

from __future__ import annotations

import threading
import time

from cassandra import OperationTimedOut

ROWS = 100
PAUSE_SECONDS = 0.02


def fill(session, keyspace: str) -> None:
    session.execute(f"CREATE TABLE {keyspace}.facts (k int PRIMARY KEY, v text)")
    insert = session.prepare(f"INSERT INTO {keyspace}.facts (k, v) VALUES (?, ?)")
    for key in range(ROWS):
        session.execute(insert, [key, value(key)])


def value(key: int) -> str:
    return f"value of {key}"


class Load:
    """One sequential caller per session, until stopped."""

    def __init__(self, sessions: list, keyspace: str, timeout: float = 12.0) -> None:
        self.timeout = timeout
        self.successes: list[float] = []
        self.errors: list[tuple[float, Exception]] = []
        self.wrong: list[str] = []
        self.stopped = threading.Event()
        statement = f"SELECT v FROM {keyspace}.facts WHERE k = ?"
        callers = [(session, session.prepare(statement)) for session in sessions]
        self.threads = [threading.Thread(target=self.call, args=caller, daemon=True) for caller in callers]
        for thread in self.threads:
            thread.start()

    def call(self, session, select) -> None:
        key = 0
        while not self.stopped.wait(PAUSE_SECONDS):
            key = (key + 1) % ROWS
            try:
                rows = session.execute(select, [key], timeout=self.timeout).all()
            except Exception as error:  # whatever it is, the test judges it
                self.errors.append((time.monotonic(), error))
                continue
            self.successes.append(time.monotonic())
            if [row.v for row in rows] != [value(key)]:
                self.wrong.append(f"{key}: {rows}")

    def stop(self) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join(self.timeout + 5)
            assert not thread.is_alive(), "a request got no answer at all"

    def successes_since(self, moment: float) -> int:
        return sum(at >= moment for at in self.successes)

    def is_calm(self, seconds: float, within: float) -> bool:
        """Waits until, counted from now on, no request failed for so long while many succeeded."""
        begin, end = time.monotonic(), time.monotonic() + within
        while (now := time.monotonic()) < end:
            last_error = max((at for at, _ in self.errors), default=0.0)
            if now - max(begin, last_error) > seconds and self.successes_since(now - seconds) > 5 * seconds * len(self.threads):
                return True
            time.sleep(0.1)
        return False

    def unanswered(self) -> list[str]:
        """Requests that nobody answered and no closed connection ended."""
        return [repr(error) for _, error in self.errors if isinstance(error, OperationTimedOut)]
