"""Looking at the variables of real kernels: nothing of the user's runs for it, and nothing is left behind."""

import pytest

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.jupyter.kernels import KernelUnfit
from ozzie_server_ext.jupyter.outputs import text_of
from tests.integration.jupyter.rig import KernelBench

pytestmark = pytest.mark.asyncio(loop_scope="package")

SHADOWED = """
_own = globals()
for _name in dir(__import__('builtins')):
    if not _name.startswith('_'):
        _own[_name] = 'mine'
"""


async def test_variables_are_listed_and_shown(kernels: KernelBench) -> None:
    kernel = await kernels.kernel("variables.ipynb")
    await kernels.run(
        kernel,
        "import pandas as pd, math\ncount = 3\nname = 'Ana'\n_hidden = 1\nprices = [1, 2.5]\n"
        "frame = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})",
    )
    told = await kernels.live.inspect(kernel)
    assert told == {
        "variables": [
            {"name": "count", "type": "int", "value": "3"},
            {"name": "frame", "type": "DataFrame", "size": "2 rows × 2 columns"},
            {"name": "name", "type": "str", "size": "3 characters", "value": "'Ana'"},
            {"name": "prices", "type": "list", "size": "2 items", "value": "[1, 2.5]"},
        ],
        "left_out": 0,
    }

    one = await kernels.live.inspect(kernel, "frame")
    assert one["variable"] == {
        "name": "frame",
        "type": "DataFrame",
        "size": "2 rows × 2 columns",
        "rows": 2,
        "columns": [
            {"name": "a", "dtype": "int64", "missing": 0},
            {"name": "b", "dtype": "string", "missing": 1},
        ],
        "left_out": 0,
        "first": [["1", "'x'"], ["2", "nan"]],
    }
    with pytest.raises(NotFound, match="There is no variable `nothing` in this kernel"):
        await kernels.live.inspect(kernel, "nothing")


async def test_a_look_leaves_no_trace(kernels: KernelBench) -> None:
    kernel = await kernels.kernel("traces.ipynb")
    look = "[sorted(globals()), list(In), dict(Out), get_ipython().execution_count, _, __, ___, _i]"
    await kernels.run(kernel, "a = 1\n'kept'")
    page = await kernels.page(kernel)

    async def state() -> object:
        content = {"code": "", "silent": True, "store_history": False, "user_expressions": {"x": look}}
        request = page.ask("execute_request", content)
        return (await page.reply(request))["user_expressions"]["x"]["data"]["text/plain"]

    before = await state()
    await kernels.live.inspect(kernel)
    await kernels.live.inspect(kernel, "a")
    with pytest.raises(NotFound):
        await kernels.live.inspect(kernel, "b")
    assert await state() == before
    assert "'kept'" in str(before)
    page.leave()


async def test_names_that_the_user_gave_to_other_things_are_theirs(kernels: KernelBench) -> None:
    kernel = await kernels.kernel("shadowed.ipynb")
    await kernels.run(kernel, SHADOWED)
    told = await kernels.live.inspect(kernel, "len")
    assert told["variable"] == {"name": "len", "type": "str", "size": "4 characters", "value": "mine"}


@pytest.mark.parametrize(
    "name", ["__import__('os')", "a.b", "a[0]", "a b", "lambda", "1a", "a\n", "a" * 201, "a);exec('x=1')#"]
)
async def test_what_is_no_plain_name_is_not_even_sent(kernels: KernelBench, name: str) -> None:
    with pytest.raises(Exception, match="is no plain name of a variable"):
        await kernels.live.inspect(await kernels.kernel("variables.ipynb"), name)


async def test_what_is_registered_to_run_for_each_cell_or_each_value_is_not_run(kernels: KernelBench) -> None:
    kernel = await kernels.kernel("hooks.ipynb")
    await kernels.run(
        kernel,
        "ran = []\nip = get_ipython()\nip.events.register('pre_execute', lambda: ran.append('pre_execute'))\n"
        "ip.events.register('pre_run_cell', lambda info: ran.append('pre_run_cell'))\n"
        "ip.events.register('post_run_cell', lambda result: ran.append('post_run_cell'))\n"
        "import ast\nclass Seen(ast.NodeTransformer):\n"
        "    def visit(self, node):\n        ran.append('ast')\n        return node\n"
        "ip.ast_transformers.append(Seen())\n"
        "for kind in (str, dict, list, int):\n"
        "    plain = ip.display_formatter.formatters['text/plain']\n"
        "    plain.for_type(kind, lambda o, p, c: ran.append(kind) or p.text('x'))",
    )
    count = await _ran(kernels, kernel)
    await kernels.live.inspect(kernel)
    await kernels.live.inspect(kernel, "kind")
    assert await _ran(kernels, kernel) == count


async def _ran(kernels: KernelBench, kernel: str) -> str:
    """How often anything did, as a variable that is looked at tells it."""
    told = (await kernels.live.inspect(kernel, "ran"))["variable"]
    assert isinstance(told, dict)
    return str(told["size"])


async def test_our_own_kernel_shows_its_variables_while_a_cell_runs(kernels: KernelBench) -> None:
    """A turn that looks at them is itself a cell of that kernel."""
    kernel = await kernels.kernel("turns.ipynb", "ozzie")
    page = await kernels.page(kernel)
    await page.run("%%python\ncount = 3\nname = 'Ana'")
    go = kernels.folder / "go"
    waiting = f"while not pathlib.Path({str(go)!r}).exists():\n    await asyncio.sleep(0.05)"
    cell = page.send(f"%%python\nimport asyncio, pathlib\nprint('begun', flush=True)\n{waiting}")
    await page.until(cell, "stream", "begun")

    told = await kernels.live.inspect(kernel)
    one = await kernels.live.inspect(kernel, "count")
    with pytest.raises(NotFound, match="There is no variable `nothing` in this kernel"):
        await kernels.live.inspect(kernel, "nothing")
    go.touch()

    assert (await page.reply(cell))["status"] == "ok"
    assert told["variables"] == [
        {"name": "count", "type": "int", "value": "3"},
        {"name": "name", "type": "str", "size": "3 characters", "value": "'Ana'"},
    ]
    assert one["variable"] == {"name": "count", "type": "int", "value": "3"}
    page.leave()


async def test_a_kernel_of_another_language_is_refused_in_words(kernels: KernelBench) -> None:
    kernel = await kernels.kernel("variables.ipynb")
    await kernels.run(kernel, "kept = 3")
    spec = kernels.manager.get_kernel(kernel).kernel_spec
    spec.language = "julia"
    try:
        with pytest.raises(KernelUnfit, match=r"is no Python kernel: its variables can't be looked at\.$"):
            await kernels.live.inspect(kernel)
    finally:
        spec.language = "python"
    assert text_of((await kernels.run(kernel, "kept")).outputs) == "3"
