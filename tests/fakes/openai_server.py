"""A provider on loopback that speaks OpenAI's wire format: `python -m tests.fakes.openai_server` prints its URL."""

import argparse
import contextlib
import threading

from tests.fakes.openai_wire import OpenAIWire
from tests.fakes.provider_server import FakeProvider


class FakeOpenAI(FakeProvider):
    """See FakeProvider."""

    def __init__(self, *, keys: frozenset[str] | None = None, port: int = 0) -> None:
        super().__init__(OpenAIWire(), keys=keys, port=port)

    def __enter__(self) -> "FakeOpenAI":
        super().__enter__()
        return self


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--key", action="append", help="let only these keys in (may be repeated)")
    args = parser.parse_args()
    with FakeOpenAI(keys=frozenset(args.key) if args.key else None, port=args.port) as server:
        print(server.base_url, flush=True)  # noqa: T201
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
