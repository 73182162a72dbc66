"""`%load_ext ozzie_kernel`: `%ozzie` and `%%ozzie` in a Python notebook.

The magics run cells of Ozzie as its own kernel does, with the same runner. Python waits meanwhile, so the runner has
a loop in a thread of its own.
"""

import asyncio
import keyword
import os
import re
import threading
import tokenize
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

from ipykernel.ipkernel import IPythonKernel
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import (
    MagicAssign,
    TokenTransformBase,
    assemble_continued_line,
    find_end_of_continued_line,
)
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import needs_local_scope, no_var_expand

from ozzie_kernel.answer import Answer, TurnFailed, TurnStopped
from ozzie_kernel.cells import Message, Mistake, OwnCell, Python, Run, parse
from ozzie_kernel.front_end import KernelFrontEnd
from ozzie_kernel.handover import fill, made_by, schema_of
from ozzie_kernel.runner import STOPPED, CellRunner, Ended
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.answers import value_in
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.render.turnview import TurnView

T = TypeVar("T")

_OPTION = re.compile(r"--(\w+)(?:[ \t]+|=)([^\W\d]\w*)(?:[ \t]+|(?=\n)|$)")
_END = re.compile(r"--(?:[ \t]+|(?=\n)|$)")
"""Ends the options, before a message that itself begins with two dashes."""
_KEPT = frozenset({"get_ipython", "exit", "quit", "In", "Out"})
"""Names of IPython's own, which no answer may take."""

USAGE = """Send a message to Ozzie, or run one of its commands; %ozzie %help lists those.

    %ozzie How many rows has @data/sales.csv?
    answer = %ozzie What stands out in {prices}?

    %%ozzie --schema Price --out found
    Which prices does @notes/prices.md name?

{name} hands over that variable: a short value as it is, a data frame as its shape, types, first rows and statistics, an
array, a figure as a picture. Nothing else of the notebook is sent. {{ and }} are braces.

--schema NAME   the answer has to fit that JSON Schema (a dict, or a class of pydantic), and is in .data
--out NAME      keep the answer in that variable

The answer is an object with .text, .data, .task and .cost; _ has it too. A failed turn raises TurnFailed, a stopped one
TurnStopped, which ends a loop."""


@dataclass(frozen=True, slots=True)
class Options:
    """What stands before a message: the names of variables."""

    schema: str = ""
    out: str = ""


def options_of(text: str) -> tuple[Options, str]:
    """Return the options at the beginning of a text, and the rest. Raises UsageError."""
    given: dict[str, str] = {}
    while text.startswith("--"):
        if ended := _END.match(text):
            return Options(**given), text[ended.end() :]
        found = _OPTION.match(text)
        if found is None or found[1] not in ("schema", "out"):
            raise UsageError(
                "Before the message may stand --schema NAME, --out NAME (of variables), and -- to end them."
            )
        given[found[1]] = found[2]
        text = text[found.end() :]
    if keyword.iskeyword(given.get("out", "")) or given.get("out") in _KEPT:
        raise UsageError(f"{given['out']} is no name for a variable.")
    return Options(**given), text


class Question(TokenTransformBase):
    """A line with `%ozzie`, of which IPython would make a request for help if it ends with a question mark."""

    priority = 1  # before `HelpEnd`
    _MAGIC = re.compile(r"%ozzie(?![\w?])")

    def __init__(self, start: tuple[int, int], magic: tuple[int, int]) -> None:
        super().__init__(start)
        self._line, self._column = magic[0] - 1, magic[1]

    @classmethod
    def find(cls, tokens_by_line: Any) -> "Question | None":
        """Return the first such line, by its tokens."""
        for line in tokens_by_line:
            tokens = [token for token in line if token.type not in (tokenize.INDENT, tokenize.DEDENT)]
            if tokens and tokens[0].string == "%":
                magic = tokens[0].start
            elif (assigned := MagicAssign.find([line])) is not None:
                magic = (assigned.start_line + 1, assigned.start_col)
            else:
                continue
            if any(token.start == magic and cls._MAGIC.match(token.line, magic[1]) for token in tokens):
                return cls(tokens[0].start, magic)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """Return the lines with the call that IPython makes of a magic."""
        end = find_end_of_continued_line(lines, self._line)
        text = assemble_continued_line(lines, (self._line, self._column), end)
        before = lines[self._line][: self._column]
        call = f"get_ipython().run_line_magic('ozzie', {text.removeprefix('%ozzie').strip()!r})\n"
        return [*lines[: self._line], before + call, *lines[end + 1 :]]


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        threading.Thread(target=self._loop.run_forever, name="ozzie", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> tuple[T, bool]:
        """Run something there; return its result, and whether a person interrupted it meanwhile. An interrupt cancels
        it, and its end is awaited all the same. Raises InputError in a forked process, which has no such thread."""
        if os.getpid() != self._pid:
            work.close()
            raise InputError("A forked process has no Ozzie.", hint="Ask in the notebook itself.", code="magic.fork")
        running: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            if not tasks:
                tasks.append(self._loop.create_task(work))
                tasks[0].add_done_callback(finish)

        def finish(task: "asyncio.Task[T]") -> None:
            if task.cancelled():
                running.set_exception(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                running.set_exception(error)
            else:
                running.set_result(task.result())

        interrupts, sent = 0, 0
        while True:
            try:
                # Twice is no harm. With the context of the caller, which says what cell the output belongs to.
                self._loop.call_soon_threadsafe(begin)
                if interrupts > sent:
                    self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
                    sent = interrupts
                return running.result(), interrupts > 0
            except KeyboardInterrupt:
                interrupts += 1


class Magics:
    """The magics of one Python kernel."""

    def __init__(self, shell: InteractiveShell, kernel: IPythonKernel) -> None:
        self._shell = shell
        self._kernel: Any = kernel
        self._front_end = KernelFrontEnd(kernel)
        self._loop = Loop()
        self._runner, _ = self._loop.run(self._new_runner())
        self._one = threading.Lock()

    async def _new_runner(self) -> CellRunner:
        return CellRunner(self._front_end, self._kernel.ident, self._shell.user_ns, self._kernel.log)

    @no_var_expand
    @needs_local_scope
    def line(self, text: str, local_ns: Mapping[str, Any] | None = None) -> Answer | None:
        options, rest = options_of(text.strip())
        return self._ask(options, rest, {**self._shell.user_ns, **(local_ns or {})})

    @no_var_expand
    def cell(self, head: str, body: str) -> Answer | None:
        options, rest = options_of(head.strip())
        return self._ask(options, f"{rest}\n{body}" if rest else body, self._shell.user_ns)

    def _ask(self, options: Options, text: str, variables: Mapping[str, Any]) -> Answer | None:
        if not text.strip():
            raise UsageError("What is the message? Write %ozzie TEXT; %ozzie? explains more.")
        try:
            maker = self._variable(options.schema, variables) if options.schema else None
            ended, interrupted = self._run(self._cell(parse(text), variables, maker))
        except InputError as error:
            raise _failed(error, None) from None
        answer = None if ended.view is None else self._answer(ended.view, has_value=maker is not None)
        made, refused = self._made(answer, maker)
        if made is not None and options.out:
            self._shell.user_ns[options.out] = made
        if refused is not None:
            raise _failed(refused, made)
        if ended.failure == STOPPED or interrupted:
            raise TurnStopped(made)
        if ended.failure:
            raise TurnFailed(ended.failure, ended.sentence, made)
        return made

    def _made(self, answer: Answer | None, maker: Any) -> tuple[Answer | None, InputError | None]:
        """Return the answer with the object that a class makes of its value; as it is, if the class refuses it."""
        if answer is None or answer.data is None or not isinstance(maker, type):
            return answer, None
        try:
            return replace(answer, data=made_by(maker, answer.data)), None
        except InputError as error:
            return answer, error

    def _cell(self, cell: OwnCell | Python, variables: Mapping[str, Any], maker: Any) -> OwnCell:
        """Return the cell with its variables. Raises InputError."""
        if isinstance(cell, Python):
            return Mistake("This is a Python notebook: write the code into a cell without %%ozzie.")
        if isinstance(cell, Message):
            filled = fill(cell.text, variables)
            schema: JsonObject = {} if maker is None else {"answer_schema": schema_of(maker)}
            return Message(filled.text, {**filled.params, **schema})
        if isinstance(cell, Run):
            if maker is not None:
                raise InputError(
                    "A skill takes no schema.", hint="Its file says what it returns.", code="handover.skill"
                )
            words = [fill(word, variables) for word in cell.words]
            if any(word.pictures for word in words):
                raise InputError("A skill takes no picture.", hint="Send it with a message.", code="handover.skill")
            return replace(cell, words=tuple(word.text for word in words))
        return cell

    def _variable(self, name: str, variables: Mapping[str, Any]) -> Any:
        if name not in variables:
            raise InputError(f"There is no variable {name}.", hint="Define the schema first.", code="handover.name")
        return variables[name]

    def _run(self, cell: OwnCell) -> tuple[Ended, bool]:
        """Run a cell; return how it ended, and whether a person interrupted it. Raises InputError."""
        with self._one:
            parent: JsonObject = self._kernel.get_parent("shell")
            metadata = parent.get("metadata")
            cell_id = str(metadata.get("cellId", "")) if isinstance(metadata, dict) else ""
            try:
                return self._loop.run(self._runner.show(cell, cell_id, bool(self._kernel._allow_stdin)))
            except asyncio.CancelledError:
                return Ended(STOPPED, "Stopped by you."), True

    def _answer(self, view: TurnView, *, has_value: bool) -> Answer:
        return Answer(
            text=view.text,
            data=value_in(view.last_text) if has_value and view.status == "Done" else None,
            task=view.task_id,
            cost=Decimal(view.cost) / 10**9 if view.cost_known else None,
            view=view,
            shown_in=self._shell.execution_count,
        )


def _failed(error: InputError, answer: Answer | None) -> TurnFailed:
    return TurnFailed(error.code, visible_label(f"{error} {error.hint}".rstrip()), answer)


Magics.line.__doc__ = Magics.cell.__doc__ = USAGE


def load(shell: InteractiveShell) -> None:
    """Add the magics to a shell, once. Raises UsageError where they can't work."""
    kernel = getattr(shell, "kernel", None)
    if not isinstance(kernel, IPythonKernel):
        raise UsageError("%ozzie needs a notebook or `jupyter console`. In a terminal, use `ozzie ask`.")
    if getattr(kernel, "implementation", "") == "ozzie":
        raise UsageError("This notebook runs Ozzie already: a cell without %%python is a message.")
    if "ozzie" in shell.magics_manager.magics["line"]:
        return
    magics = Magics(shell, kernel)
    manager: Any = shell.magics_manager
    shell.input_transformer_manager.token_transformers.insert(0, Question)
    for kind, function in (("line", magics.line), ("cell", magics.cell)):
        manager.register_function(function, magic_kind=kind, magic_name="ozzie")
