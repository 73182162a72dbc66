"""`make bench`: every benchmark, each in a process of its own, then a table and `bench/results.json`."""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from bench.result import table

BENCHMARKS = (
    "first_token",
    "overhead",
    "interrupt",
    "append",
    "storage",
    "search",
    "export",
    "replay",
    "broker",
    "decision",
    "mcp_call",
    "mcp_served",
    "plugin_call",
    "steps",
    "many_tasks",
    "long_session",
    "large_home",
    "sandbox",
    "kernel_start",
    "server_size",
    "lab_start",
    "streams",
    "workers",
    "fanout",
    "rebuild",
)
LIMIT_S = 900
RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="only these (default: all)")
    names = parser.parse_args().names or BENCHMARKS
    rows: list[dict[str, object]] = []
    failed: list[str] = []
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            done = subprocess.run(
                [sys.executable, "-m", f"bench.{name}"],
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=True,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            failed.append(name)
            print(f"{name} gave no result: {error}\n{error.stderr or ''}", file=sys.stderr)
        else:
            rows += [json.loads(line) for line in done.stdout.splitlines()]
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores. Ratios count; the figures are this machine's.\n"
    )
    print(table(rows))
    for row in rows:
        if row["note"]:
            print(f"\n{row['name']}: {row['note']}.", end="")
    print(f"\n\n{RESULTS} has the same.")
    if failed:
        sys.exit(f"No result: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
