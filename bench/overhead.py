"""What a whole turn costs beside the bare call that it makes, with a model that answers at once.

Both run in the same Ozzie kernel, in turns: a cell that is a message, and a `%%python` cell that calls litellm itself.
"""

import argparse
import statistics

from bench.first_token import PLAIN_SETUP, home_with
from bench.kernels import kernel
from bench.result import Result, emit
from tests.fakes.openai_server import FakeOpenAI

MODEL = "echo"
RUNS = 30
TARGET = 2.0

CALL = """%%python
reply = litellm.completion(model="openai/{model}", api_base="{url}", api_key="none", stream=True,
                           messages=[{{"role": "user", "content": "hello"}}])
print("".join(chunk.choices[0].delta.content or "" for chunk in reply))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    with FakeOpenAI() as provider, home_with(provider, MODEL) as home, kernel("ozzie", dict(home.env)) as both:
        call = CALL.format(model=MODEL, url=f"{provider.url}/v1")
        both.timed(f"%%python\n{PLAIN_SETUP}")
        for _ in range(3):
            both.timed("hello").first("hello")
            both.timed(call).first("hello")
        pairs = [(both.timed("hello").total_s, both.timed(call).total_s) for _ in range(options.runs)]
    ours, plain = (statistics.median(times) for times in zip(*pairs, strict=True))
    emit(
        [
            Result(
                name="a whole turn with an instant model, against a direct litellm call in the same kernel",
                ours=round(ours * 1000, 1),
                against=round(plain * 1000, 1),
                ratio=round(ours / plain, 2),
                unit="ms",
                target=f"<= {TARGET:g}x",
                met=ours / plain <= TARGET,
            )
        ]
    )


if __name__ == "__main__":
    main()
