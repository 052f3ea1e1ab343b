"""Runs the scenarios: `make outage`. The last line is the result."""

from __future__ import annotations

import dataclasses
import os
import random
import sys
import time
import traceback

from outage import aftermath, scenarios
from outage.field import Kind
from outage.lane import PAUSE_SECONDS, Lane, Rules
from outage.line import LOCAL_QUORUM, ONE
from outage.scenarios import CENTERS, Scenario
from outage.verdict import Tally, Totals
from outage.world import MAX_STALENESS, RECOVERY_SECONDS_MAX, World
from support import SCRATCH, cluster, cluster_command, eventually, host_and_port

BEFORE_SECONDS, AFTER_SECONDS, READY_SECONDS = 5.0, 10.0, 3.0
# Through each proxy, at each consistency.
LANES = 2
# They are written to for the first time when it happens, since one late write ends a split for good.
LATE_PARTITIONS = 8
LATE_PAUSE_SECONDS = 0.5
# Every attempt in silence, and all of them again and again.
LANE_END_SECONDS_MAX = 150
PLAIN_KINDS = (Kind.UNSPLIT, Kind.WATCHED, Kind.BESIDE, Kind.ELSEWHERE)
NAMES = {ONE: "ONE", LOCAL_QUORUM: "LOCAL_QUORUM"}


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    seed = int(os.environ.get("SEED") or random.randrange(1 << 32))
    wanted = os.environ.get("SCENARIOS", "").replace(",", " ").split()
    chosen = [scenario for scenario in scenarios.ALL if not wanted or any(scenario.name.startswith(name) for name in wanted)]
    if not chosen:
        say(f"no such scenario; there are {', '.join(scenario.name for scenario in scenarios.ALL)}")
        return 64
    scale, staleness = float(os.environ.get("DURATION") or 1), os.environ.get("STALENESS") or MAX_STALENESS
    say(f"outage: {', '.join(scenario.name for scenario in chosen)}; duration × {scale:g}, max_staleness {staleness}, seed {seed}")
    totals, is_sound = Totals(), True
    try:
        for scenario in chosen:
            contacts = cluster(scenario.cluster)["contact_points"]
            try:
                tally = perform(scenario, contacts, seed, scale, staleness)
                totals.add(tally)
                is_sound &= not tally.trouble
            except Exception:  # the others still have something to show
                is_sound = False
                say(f"{scenario.name} did not come to its end:\n{traceback.format_exc()}")
                cluster_command("down", "--name", scenario.cluster)
    finally:
        for name in {scenario.cluster for scenario in chosen}:
            cluster_command("down", "--name", name)
    say(f"{totals.inside_refused} writes refused by proxies that were started inside an outage")
    say(f"{totals.operations} operations, {totals.failed} failed that succeed direct, {totals.late_refused} late writes refused, "
        f"{totals.lost} lost, {totals.differences} differences, seed {seed}")
    return 0 if totals.is_good and is_sound else 1


def perform(scenario: Scenario, *rest) -> Tally:
    """A rate that exceeds its bound once in twenty times does so by chance, so it is measured once more."""
    tally = Play(scenario, *rest).perform()
    if scenario.by_rate and tally.failed:
        say("  more than the bound allows: once more")
        again = Play(scenario, *rest).perform()
        tally.failed = 0
        tally.add(again)
        tally.trouble += again.trouble
    return tally


class Play:
    """One scenario: a world, its load, the fault, and the check."""

    def __init__(self, scenario: Scenario, contacts: list[str], seed: int, scale: float = 1.0, staleness: str = MAX_STALENESS,
                 cluster_name: str | None = None, pause: float = PAUSE_SECONDS) -> None:
        self.scenario, self.scale, self.pause = scenario, scale, pause
        self.seeds = random.Random(f"{seed} {scenario.name}")
        self.world = World(cluster_name or scenario.cluster, contacts, SCRATCH / "outage" / scenario.name, staleness,
                           scenario.control_replication, scenario.with_redis)
        self.tally, self.lanes, self.late = Tally(), [], []

    def perform(self) -> Tally:
        """Raises what keeps it from showing anything."""
        began = time.monotonic()
        say(f"{self.scenario.name}: {self.scenario.about}")
        with self.world:
            plans = self.plan()
            self.world.prepare()
            say(f"  prepared after {time.monotonic() - began:.0f} s")
            try:
                self.weather(plans)
            finally:
                self.stop_lanes()
            aftermath.check(self.world, self.tally, self.seeds.getrandbits(32))
            self.tally.trouble += self.world.stop_proxies()
        if self.scenario.by_rate:
            say(f"  {self.tally.compare_rates()}")
        self.report()
        say(f"  {self.tally.summary()}; {time.monotonic() - began:.0f} s")
        return self.tally

    # The load.

    def plan(self) -> list[tuple]:
        """Who does what, with partitions of its own: proxy, home, consistency, partitions, pause."""
        field, plans = self.world.field, []
        for proxy in ("single", "mirror"):
            for consistency in self.scenario.consistencies:
                for number in range(LANES):
                    pairs = [field.pair(kind) for kind in (*PLAIN_KINDS, *PLAIN_KINDS, Kind.SPLIT)]
                    plans.append((proxy, self.home(number), consistency, pairs, self.pause))
        for proxy in ("single", "mirror"):
            pairs = [field.pair(Kind.SPLIT) for _ in range(LATE_PARTITIONS)]
            self.late.append((proxy, 0, self.scenario.consistencies[-1], pairs, LATE_PAUSE_SECONDS))
        if self.scenario.starts_inside:
            pairs = [field.pair(kind) for kind in (*PLAIN_KINDS, Kind.SPLIT)]
            self.inside = ("inside", 0, self.scenario.consistencies[0], pairs, self.pause)
        return plans

    def home(self, number: int) -> int:
        """Lanes are at home on different nodes, but always in their own data centre."""
        return 0 if self.scenario.cluster == CENTERS else (number + 1) % len(self.world.nodes)

    def start_lane(self, plan: tuple) -> None:
        proxy, home, consistency, pairs, pause = plan
        # A quorum of another data centre is another one.
        sees = consistency == LOCAL_QUORUM and self.scenario.cluster != CENTERS
        rules = Rules(self.scenario.can_end, self.scenario.by_rate, proxy == "inside", sees)
        lines = (self.world.line(proxy, home), self.world.line("direct", home))
        lane = Lane(pairs, lines, consistency, rules, self.tally, self.seeds.getrandbits(32), pause)
        self.lanes.append(lane)
        lane.start()

    def stop_lanes(self) -> None:
        for lane in self.lanes:
            lane.stop()
        for lane in self.lanes:
            lane.join(LANE_END_SECONDS_MAX)
            assert not lane.is_alive(), "an operation does not end"
            lane.through.close()
            lane.direct.close()
            assert not lane.broken, lane.broken

    # What happens.

    def weather(self, plans: list[tuple]) -> None:
        world, seconds = self.world, self.scenario.seconds * self.scale
        answered = world.answered()
        for plan in plans:
            self.start_lane(plan)
        self.wait("before", BEFORE_SECONDS * min(1.0, self.scale))
        assert eventually(lambda: world.answered() > answered), "no read was answered from a split: nothing would be shown"
        for plan in self.late:
            self.start_lane(plan)
        with self.scenario.fault(world):
            say(f"  it has happened; {self.tally.operations} operations so far")
            began = time.monotonic()
            if self.scenario.hides_control:
                assert not world.can_read_control(), "the control keyspace can still be read: nothing would be shown"
            self.wait("meanwhile", (seconds / 2 if self.scenario.starts_inside else seconds) - (time.monotonic() - began))
            if self.scenario.starts_inside:
                self.start_inside()
                self.wait("meanwhile, with a proxy started inside", seconds - (time.monotonic() - began))
        say("  it is over")
        for lane in self.lanes:
            lane.homewards.set()
        self.wait("after", AFTER_SECONDS * min(1.0, max(0.5, self.scale)))
        for name, proxy in world.proxies.items():
            ready = eventually(lambda: proxy.admin("/readyz")[0] == 200, RECOVERY_SECONDS_MAX)
            assert ready, f"{name} is not ready again: {proxy.admin('/readyz')}"
        # From now on there is no excuse.
        for lane in self.lanes:
            lane.rules = dataclasses.replace(lane.rules, inside=False, can_end=True)
        self.wait("when all proxies are ready", READY_SECONDS)

    def start_inside(self) -> None:
        proxy = self.world.start_proxy("inside")
        assert eventually(lambda: self.listens(proxy)), "a proxy that starts inside an outage takes no clients"
        self.start_lane(self.inside)

    def listens(self, proxy) -> bool:
        line = self.world.line("inside")
        try:
            line.connection()
            return True
        except Exception:  # not yet
            return False
        finally:
            line.close()

    def wait(self, phase: str, seconds: float) -> None:
        """Shows how far it is, now and then."""
        before, deadline = self.tally.operations, time.monotonic() + max(0.0, seconds)
        while (rest := deadline - time.monotonic()) > 0:
            time.sleep(min(rest, 30))
            tally = self.tally
            say(f"  {phase}: {tally.operations - before} operations, {tally.failed} failed, {tally.late_refused} late writes refused"
                f"{f', {tally.inside_refused} by the new proxy' if tally.inside_refused else ''}")

    def report(self) -> None:
        for example in self.tally.examples():
            say(f"    {example}")
        for (kind, what), count in sorted(self.tally.failed_by_kind.items()):
            say(f"    failed: {count} of {self.tally.by_kind[kind, what]} {what} {kind}")


if __name__ == "__main__":
    sys.exit(main())
