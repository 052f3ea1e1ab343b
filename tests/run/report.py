"""What stands at the end of a run: the table of stages, the names of what failed, and one line that says it all."""

from __future__ import annotations

from flakes import Flake
from stage import LOGS, ROOT, Outcome


def finish(outcomes: list[Outcome]) -> int:
    print(f"\n{'stage':12} {'passed':>7} {'failed':>7} {'time':>8}")
    for outcome in outcomes:
        print(f"{outcome.stage:12} {len(outcome.passed):7} {len(outcome.failed):7} {clock(outcome.seconds):>8}")
    print(f"{'':28} {clock(sum(outcome.seconds for outcome in outcomes)):>8}")
    keep_times(outcomes)
    for outcome in outcomes:
        for name, reason in outcome.failed.items():
            print(f"failed: {outcome.stage} {name}: {reason}")
    passed, failed = (sum(map(len, parts)) for parts in zip(*((outcome.passed, outcome.failed) for outcome in outcomes)))
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


def keep_times(outcomes: list[Outcome]) -> None:
    """All times go to a file, slowest first."""
    times = sorted(((seconds, outcome.stage, name) for outcome in outcomes for name, seconds in outcome.times.items()), reverse=True)
    file = LOGS / "times.txt"
    file.write_text("".join(f"{seconds:8.1f} s  {stage} {name}\n" for seconds, stage, name in times))
    print(f"the time of every test is in {file.relative_to(ROOT)}")


def flaky(flakes: list[Flake], rounds: int) -> int:
    print()
    for flake in flakes:
        logs = ", ".join(str(log.relative_to(ROOT)) for log in flake.logs)
        print(f"passed {flake.passed} of {rounds} times: {flake.stage} {flake.name} (see {logs})")
    print(f"{len(flakes)} did not pass every time in {rounds} rounds", flush=True)
    return 1 if flakes else 0


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
