"""What a run found: a table for people, JSON for machines, and whether it is good enough."""

from __future__ import annotations

import json
import operator
from pathlib import Path

# What, key, unit, how it must compare, with what.
TARGETS = (
    ("copy alone", "copy_mb_per_s", "MB/s", "≥", 10),
    ("plan, copy and verify", "split_mb_per_s", "MB/s", "≥", 3),
    ("worker's memory at its peak", "worker_rss_mb", "MB", "≤", 64),
    ("p99 of reads beside it, throttled", "foreground_p99_ratio", "times", "<", 2),
)
COMPARES = {"≥": operator.ge, "≤": operator.le, "<": operator.lt}


def tell(found: dict, path: Path) -> int:
    """0 if every target that was measured is met."""
    print(f"\n  {'':<36}{'target':>10}{'found':>10}")
    missed = 0
    for what, key, unit, compares, target in TARGETS:
        if key not in found:
            continue
        is_met = COMPARES[compares](found[key], target)
        missed += not is_met
        print(f"  {what:<36}{f'{compares} {target}':>10}{found[key]:>10.2f} {unit:<6}{'ok' if is_met else 'MISSED'}")
    print("  (a MB is 10^6 bytes of the rows' values)")
    path.write_text(json.dumps(rounded(found), indent=2) + "\n")
    print(f"\nwritten to {path}")
    return 1 if missed else 0


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 3) if isinstance(value, float) else value
