"""What `make outage` counts, shown with nodes that are told what to answer. `failures` plays one of its scenarios for real."""

from __future__ import annotations

import struct
import unittest
from unittest import mock

import wire
from outage.field import BASE_ROWS, FIRST_WRITTEN, Fate, Field, Kind, base_value, written_value
from outage.lane import Lane, Rules
from outage.line import ONE, Line
from outage.verdict import Tally, is_higher, tolerated
from support import host_and_port

VOID = (wire.RESULT, struct.pack(">i", 1))
OURS, THEIRS = (0x1001, "narrows: the write was not forwarded"), (0x1100, "Operation timed out")


def error(code: int, text: str) -> tuple[int, bytes]:
    return wire.ERROR, struct.pack(">iH", code, len(text)) + text.encode()


def string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def rows_reply(rows: list[tuple[int, str]]) -> tuple[int, bytes]:
    body = struct.pack(">iii", 2, 1, 2) + string("ks") + string("t")
    body += string("c") + struct.pack(">H", 9) + string("v") + struct.pack(">H", 13) + struct.pack(">i", len(rows))
    for row, value in rows:
        body += struct.pack(">iii", 4, row, len(value)) + value.encode()
    return wire.RESULT, body


class Node:
    """Answers requests in turn, and all further ones like the last; an answer of None hangs up."""

    def __init__(self, *answers) -> None:
        self.answers, self.asked = list(answers), 0
        self.fake = wire.FakeNode(self.answer)
        self.address = host_and_port(self.fake.address)

    def answer(self, opcode: int, _: bytes) -> tuple[int, bytes]:
        if opcode == wire.STARTUP:
            return wire.READY, b""
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise ConnectionError
        return answer


class Counted(unittest.TestCase):
    def setUp(self) -> None:
        quick = mock.patch("outage.lane.REPEAT_PAUSE_SECONDS", 0)
        quick.start()
        self.addCleanup(quick.stop)
        self.field, self.tally = Field({kind: "ks.t" for kind in Kind}), Tally()

    def node(self, *answers) -> Node:
        node = Node(*answers)
        self.addCleanup(node.fake.close)
        return node

    def lane(self, kind: Kind, through: list[Node], direct: list[Node], **rules) -> Lane:
        lines = tuple(Line([node.address for node in nodes]) for nodes in (through, direct))
        lane = Lane([self.field.pair(kind)], lines, ONE, Rules(**{"can_end": True, **rules}), self.tally, 1)
        self.addCleanup(lane.sides.shutdown)
        for line in lines:
            self.addCleanup(line.close)
        return lane

    def write(self, kind: Kind, through: tuple, direct: tuple = (VOID,), **rules) -> Fate:
        """What became of it through the proxy."""
        lane = self.lane(kind, [self.node(*through)] * 2, [self.node(*direct)] * 2, **rules)
        lane.operate(lane.write(lane.pairs[0], False))
        return lane.pairs[0].through.fates[FIRST_WRITTEN]

    def counts(self) -> tuple[int, int, int]:
        self.assertEqual(self.tally.operations, 1)
        return self.tally.failed, self.tally.late_refused, self.tally.inside_refused

    def test_a_write_that_only_the_proxy_refuses_failed(self) -> None:
        self.assertEqual(self.write(Kind.WATCHED, (error(*OURS),)), Fate.REFUSED)
        self.assertEqual(self.counts(), (1, 0, 0))

    def test_a_write_that_both_refuse_is_nobodys_fault(self) -> None:
        self.assertEqual(self.write(Kind.WATCHED, (error(*OURS),), (error(*THEIRS),)), Fate.REFUSED)
        self.assertEqual(self.counts(), (0, 0, 0))

    def test_a_retry_that_succeeds_is_a_success(self) -> None:
        self.assertEqual(self.write(Kind.WATCHED, (error(*OURS), VOID)), Fate.ACKNOWLEDGED)
        self.assertEqual(self.counts(), (0, 0, 0))

    def test_a_late_write_is_counted_apart_only_if_splits_cannot_be_ended(self) -> None:
        self.write(Kind.SPLIT, (error(*OURS),), can_end=False)
        self.assertEqual(self.counts(), (0, 1, 0))
        self.tally = Tally()
        self.write(Kind.SPLIT, (error(*OURS),), can_end=True)
        self.assertEqual(self.counts(), (1, 0, 0))

    def test_a_proxy_started_inside_may_refuse_what_it_cannot_know(self) -> None:
        for kind, expected in ((Kind.WATCHED, (0, 0, 1)), (Kind.BESIDE, (0, 0, 1)), (Kind.ELSEWHERE, (1, 0, 0))):
            self.tally = Tally()
            self.write(kind, (error(*OURS),), inside=True)
            self.assertEqual(self.counts(), expected, kind)

    def test_cassandras_own_error_counts_if_it_comes_again_and_again(self) -> None:
        once = [error(*THEIRS)] * 2 + [VOID]
        self.assertEqual(self.write(Kind.WATCHED, tuple(once)), Fate.ACKNOWLEDGED)
        self.assertEqual(self.counts(), (0, 0, 0))
        self.tally = Tally()
        self.assertEqual(self.write(Kind.WATCHED, (error(*THEIRS),)), Fate.UNKNOWN)
        self.assertEqual(self.counts(), (1, 0, 0))

    def test_a_lost_connection_means_the_next_node(self) -> None:
        gone, good = self.node(None), self.node(VOID)
        lane = self.lane(Kind.WATCHED, [gone, gone, good], [good])
        lane.operate(lane.write(lane.pairs[0], False))
        self.assertEqual((gone.asked, good.asked, self.counts()), (2, 2, (0, 0, 0)))

    def test_a_wrong_answer_is_a_difference(self) -> None:
        everything = [(row, base_value(row)) for row in range(BASE_ROWS)]
        newest, without_the_last = everything[:-21:-1], everything[-2:-22:-1]
        for through, expected in ((newest, 0), (without_the_last, 1)):
            self.tally = Tally()
            lane = self.lane(Kind.SPLIT, [self.node(rows_reply(through))], [self.node(rows_reply(newest))])
            lane.operate(lane.newest(lane.pairs[0], False))
            self.assertEqual((self.tally.differences, self.tally.trouble), (expected, []))

    def test_rates_count_as_far_as_they_exceed_the_bound(self) -> None:
        for direct, operations in ((0, 1000), (10, 1000), (300, 1000), (0, 50)):
            bound = tolerated(direct, operations)
            self.assertFalse(is_higher(bound, direct, operations))
            self.assertTrue(is_higher(bound + 1, direct, operations))
        self.tally.operations, self.tally.failures = 1000, {"through": 40, "direct": 10}
        self.tally.compare_rates()
        self.assertEqual(self.tally.failed, 40 - tolerated(10, 1000))


class Written(unittest.TestCase):
    def test_what_must_and_must_not_be_there(self) -> None:
        side = Field({kind: "ks.t" for kind in Kind}).pair(Kind.WATCHED).through
        found = {row: base_value(row) for row in range(BASE_ROWS)}
        fates = dict(zip(range(FIRST_WRITTEN, FIRST_WRITTEN + 3), (Fate.ACKNOWLEDGED, Fate.UNKNOWN, Fate.REFUSED)))
        for row, fate in fates.items():
            side.note(row, fate)
        acknowledged, unknown, refused = fates
        self.assertEqual((side.missing(found), side.made_up(found)), ([acknowledged], []))
        found |= {row: written_value(side.key, row) for row in fates}
        self.assertEqual((side.missing(found), side.made_up(found)), ([], [refused]))
        side.note(refused, Fate.UNKNOWN)
        self.assertEqual(side.made_up(found), [])
        side.note(unknown, Fate.ACKNOWLEDGED)
        self.assertEqual(side.missing({}), [*range(BASE_ROWS), acknowledged, unknown])


if __name__ == "__main__":
    unittest.main()
