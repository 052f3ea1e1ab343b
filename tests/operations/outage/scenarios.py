"""The outages: what is done, to which cluster, and what it may cost."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

from outage.line import LOCAL_QUORUM, ONE
from outage.world import World
from support import ROOT

# Clusters of three nodes in one data centre, and of one node in each of two.
NODES, CENTERS = "outage", "outage-dc"
ON_ONE_NODE = "{'class': 'SimpleStrategy', 'replication_factor': 1}"


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    about: str
    # How long the fault lasts.
    seconds: float
    fault: Callable[[World], contextlib.AbstractContextManager]
    cluster: str = NODES
    # Of the load; what Cassandra alone can answer all the time, so that a difference is ours.
    consistencies: tuple[int, ...] = (ONE, LOCAL_QUORUM)
    control_replication: str | None = None
    # The control keyspace can be written all the time, so that late writes must succeed.
    can_end: bool = True
    # A proxy is started half-way.
    starts_inside: bool = False
    # The list of watched tables cannot be read meanwhile; checked, since otherwise nothing is shown.
    hides_control: bool = False
    with_redis: bool = False
    # Faults by chance: rates are compared.
    by_rate: bool = False


def until_restored(strike: Callable[[World], None]):
    """Something happens to nodes, and all of them are there again at the end."""
    @contextlib.contextmanager
    def fault(world: World) -> Iterator[None]:
        try:
            strike(world)
            yield
        finally:
            world.restore()
    return fault


@contextlib.contextmanager
def redis_killed(world: World) -> Iterator[None]:
    world.redis.kill()
    yield
    world.redis.start()


@contextlib.contextmanager
def redis_paused(world: World) -> Iterator[None]:
    os.kill(world.redis.process.pid, signal.SIGSTOP)
    yield
    os.kill(world.redis.process.pid, signal.SIGCONT)


# In milliseconds. Shorter than nodes stand still; enough for two replicas that do not.
SHORT_TIMEOUTS = {"write": 60, "read": 60, "cascontention": 100}
OWN_TIMEOUTS = {"write": 2000, "read": 5000, "cascontention": 1800}


@contextlib.contextmanager
def brown_out(world: World) -> Iterator[None]:
    """Two of three nodes at a time stand still, most of the time, each time for longer than the timeouts: a quorum that is
    asked for in vain is asked for again on another node, and often in vain again."""
    world.set_timeouts(**SHORT_TIMEOUTS)
    pids = [int((ROOT / "target" / "cluster" / world.cluster_name / f"node{number}" / "pid").read_text())
            for number in range(1, len(world.nodes) + 1)]
    over = threading.Event()
    thread = threading.Thread(target=stutter, args=(pids, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    world.set_timeouts(**OWN_TIMEOUTS)
    world.restore()


def stutter(pids: list[int], over: threading.Event) -> None:
    choices = random.Random(len(pids))
    while not over.wait(choices.uniform(0.0, 0.1)):
        chosen = choices.sample(pids, 2)
        for pid in chosen:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(choices.uniform(0.2, 0.8))
        for pid in chosen:
            os.kill(pid, signal.SIGCONT)


HIDDEN = {"can_end": False, "starts_inside": True, "hides_control": True}
ALL = (
    Scenario("control", "the control keyspace has one replica, and the node with the list of watched tables is stopped", 300,
             until_restored(lambda world: world.stop(world.control_home())), control_replication=ON_ONE_NODE, **HIDDEN),
    Scenario("quorum", "two of three nodes are stopped", 90, until_restored(lambda world: world.stop(2, 3)), consistencies=(ONE,), **HIDDEN),
    Scenario("remote-dc", "the other data centre is stopped, and returns", 60, until_restored(lambda world: world.stop(2)),
             cluster=CENTERS, **HIDDEN),
    Scenario("local-dc", "the clients' own data centre is stopped, and returns", 60, until_restored(lambda world: world.stop(1)),
             cluster=CENTERS, **HIDDEN),
    Scenario("killed", "a node is killed", 60, until_restored(lambda world: world.kill(2))),
    Scenario("paused", "a node stands still", 60, until_restored(lambda world: world.pause(2))),
    Scenario("redis-killed", "Redis is killed", 30, redis_killed, with_redis=True),
    Scenario("redis-paused", "Redis stands still", 30, redis_paused, with_redis=True),
    Scenario("brown-out", "nodes stand still in turns, with short timeouts", 90, brown_out, can_end=False, by_rate=True),
)
