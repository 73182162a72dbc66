"""What a person reads before they answer an approval: the question, what the call would do, and all of its arguments.

There are two of each card. The *real* one is drawn from the recorded call at the moment a page or a terminal shows it,
so that every byte that determines the effect can be read. The *stored* one goes to the log, and with it to notebooks,
kernels, channels and second models: it has no secrets, and long arguments are shortened. Where the two differ by more
than that, nobody may say yes to the stored one: what looks like a secret may be a command (docs/security.md).
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ozzie_server_ext.domain.errors import Conflict, OzzieError
from ozzie_server_ext.domain.events import ApprovalRequested
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import redact, redact_text
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.render.text import cut_end, quoted, visible_json, visible_proof
from ozzie_server_ext.tools.base import Plan, Preview, Tool, ToolContext
from ozzie_server_ext.tools.timeout import planned, told_as_errors

MOST_ARGUMENTS = 16_000
"""In characters, of all arguments on a stored card."""
_MOST_ARGUMENT = 2000
"""In characters, of one argument on a stored card; a path is no longer than half of that."""
_BEGINNING = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """All texts have nothing invisible in them. `arguments` is JSON: whoever parses it gets the arguments back. `shown`
    is the kind of the proof."""

    sentence: str
    proof: str
    shown: Literal["diff", "text", ""]
    undo: str
    arguments: str

    @property
    def digest(self) -> str:
        """A SHA-256 of all of it, in hexadecimal."""
        texts: list[Json] = [self.sentence, self.proof, self.shown, self.undo, self.arguments]
        return hashlib.sha256(canonical_bytes(texts)).hexdigest()


async def draw(tool: Tool, args: JsonObject, asked: ApprovalRequested, context: ToolContext) -> Card:
    """The real card of a call that was asked for with these arguments, as the tool sees the world now.

    Raises Conflict if the call would do something else by now than when it was asked.
    """
    try:
        plan = await planned(tool, tool.check(args), context)
        card = real_card(await preview_of(tool, plan), plan.args)
    except OzzieError as error:
        raise changed(str(error)) from None
    if not _is_of(card, asked):
        raise changed()
    return card


def changed(why: str = "") -> Conflict:
    """What is said where the card that was asked for can't be drawn any more."""
    return Conflict(
        " ".join(filter(None, ["The call would do something else by now than when it was asked.", why])),
        hint="Reject it, or have it asked again.",
        code="approval.changed",
    )


def real_card(preview: Preview, args: JsonObject) -> Card:
    """The card as it is."""
    return _card(preview, args, lambda text: text)


def stored_card(preview: Preview, args: JsonObject, known: Sequence[str]) -> Card:
    """The card without secrets, `known` ones and what looks like one, and with all of its arguments."""
    return _card(preview, redacted(args, known), lambda text: redact_text(text, known))


def redacted(args: JsonObject, known: Sequence[str]) -> JsonObject:
    """The arguments without secrets."""
    found = redact(args, known)
    assert isinstance(found, dict)
    return found


def shortened(card: Card) -> str:
    """The arguments of a card for the log. What is long in them is what the proof is about."""
    return cut_end(visible_json(_shortened(json.loads(card.arguments))), MOST_ARGUMENTS)


async def preview_of(tool: Tool, plan: Plan) -> Preview:
    """What a person is shown of a call. Raises OzzieError, and nothing else."""
    with told_as_errors(tool, "said what it would do"):
        async with asyncio.timeout(tool.meta.timeout_s):
            return await asyncio.to_thread(plan.preview or (lambda: _usual(tool, plan)))


def _card(preview: Preview, args: JsonObject, clean: Callable[[str], str]) -> Card:
    # A line of a diff that ended in the middle would go on as one that nobody added.
    proof = preview.proof.replace("\r", "\\r") if preview.shown == "diff" else preview.proof
    return Card(
        sentence=visible_proof(clean(preview.sentence)),
        proof=visible_proof(clean(proof)),
        shown=preview.shown,
        undo=visible_proof(clean(preview.undo)),
        arguments=visible_json(args),
    )


def _is_of(card: Card, asked: ApprovalRequested) -> bool:
    """Whether the card is that of the question. Of one that nothing was taken out of, the stored texts say so."""
    if asked.card:
        return card.digest == asked.card
    same = card.sentence == asked.sentence and card.undo == asked.undo
    return same and (card.proof.startswith(asked.proof) if asked.whole else card.proof == asked.proof)


def _shortened(value: Json) -> Json:
    match value:
        case dict():
            return {name: _shortened(each) for name, each in value.items()}
        case list():
            return [_shortened(each) for each in value]
        case str() if len(value) > _MOST_ARGUMENT:
            return f"{value[:_BEGINNING]}… ({len(value):,} characters in all)"
        case _:
            return value


def _usual(tool: Tool, plan: Plan) -> Preview:
    """Of a tool that says nothing by itself: all arguments are shown, so that nothing runs that nobody saw."""
    named = [plan.args.get(target.argument) for target in tool.meta.targets]
    on = next((f" on {quoted(value)}" for value in named if isinstance(value, str)), "")
    proof = visible_json(plan.args) if plan.args else ""
    return Preview(sentence=f"Run `{tool.meta.name}`{on}?", proof=proof, shown="text" if proof else "")
