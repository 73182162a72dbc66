"""Durable steps as others record them, DBOS and LangGraph on SQLite, in a process of its own, in which they are.

`python -m bench.rivals dbos STEPS AT_ONCE` and `… langgraph STEPS 1` print the seconds that the steps took. Each step
calls the calculator. What they are told by default stays so, but for LangGraph's `durability`: without "sync" a step
begins before the one before is recorded.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

from ozzie_server_ext.tools.builtin.calc import calculate

WARM = 20


def dbos(folder: Path, steps: int, at_once: int) -> float:
    """As many workflows as there are to be steps at once, which share the steps."""
    library: Any = import_module("dbos").DBOS
    library(config={"name": "bench", "system_database_url": f"sqlite:///{folder / 'dbos.db'}", "log_level": "ERROR"})

    @library.step()
    def step(number: int) -> dict[str, str]:
        return {"value": calculate(f"{number} + 1")}

    @library.workflow()
    def chain(count: int) -> None:
        for number in range(count):
            step(number)

    library.launch()
    chain(WARM)
    with ThreadPoolExecutor(at_once) as pool:
        began = time.perf_counter()
        list(pool.map(chain, [steps // at_once] * at_once))
        took = time.perf_counter() - began
    library.destroy()
    return took


class _State(TypedDict):
    value: str


def langgraph(folder: Path, steps: int, at_once: int) -> float:
    """A chain of nodes, each with its checkpoint."""
    if at_once != 1:
        raise ValueError("LangGraph is measured one node after the other.")
    graphs: Any = import_module("langgraph.graph")
    savers: Any = import_module("langgraph.checkpoint.sqlite")

    def node(number: int) -> Callable[[_State], dict[str, str]]:
        return lambda state: {"value": calculate(f"{number} + 1")}

    graph: Any = graphs.StateGraph(_State)
    for number in range(steps):
        graph.add_node(f"n{number}", node(number))
        graph.add_edge(f"n{number - 1}" if number else graphs.START, f"n{number}")
    graph.add_edge(f"n{steps - 1}", graphs.END)
    with savers.SqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        compiled = graph.compile(checkpointer=saver)

        def run(thread: str) -> float:
            config = {"configurable": {"thread_id": thread}, "recursion_limit": steps + 10}
            began = time.perf_counter()
            compiled.invoke({"value": ""}, config, durability="sync")
            return time.perf_counter() - began

        run("warm")
        return run("measured")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rival", choices=("dbos", "langgraph"))
    parser.add_argument("steps", type=int)
    parser.add_argument("at_once", type=int)
    options = parser.parse_args()
    os.environ["LANGSMITH_TRACING"] = "false"
    with tempfile.TemporaryDirectory() as folder:
        measure = dbos if options.rival == "dbos" else langgraph
        took = measure(Path(folder), options.steps, options.at_once)
    sys.stdout.write(f"{took}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
