"""Approval cards: the question, what the call names, what it would do, and all of its arguments.

There are two versions. The *real* card is drawn from the recorded call when a page or terminal shows it, and has every
byte that determines the effect. The *stored* card goes to the log, and so to notebooks, kernels, channels and second
models: it has no secrets, and long arguments are shortened. If the two differ by more than that, the stored one can't
be approved: what looks like a secret may be a command (docs/security.md).
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Literal

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import Conflict, OzzieError
from ozzie_server_ext.domain.events import ApprovalRequested, CardTarget, TargetName
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import redact, redact_text
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.targets import NEED_NO_QUOTES, Named, named_by
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.render.text import cut_end, quoted, spelled, visible_json, visible_proof
from ozzie_server_ext.tools.base import Plan, Preview, Tool, ToolContext
from ozzie_server_ext.tools.timeout import only_ozzie_errors, planned

MOST_ARGUMENTS = 16_000
"""Characters of all arguments on a stored card."""
_MOST_ARGUMENT = 2000
"""Characters of one argument on a stored card; a path has at most half as many."""
_BEGINNING = 200
MOST_NAMES = 20
"""Names of one argument on a stored card."""
_MOST_NAME = 400
"""Characters of one of them."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """The texts hold nothing invisible; `arguments` is JSON that parses back; `shown` is the kind of proof."""

    sentence: str
    proof: str
    shown: Literal["diff", "text", ""]
    undo: str
    arguments: str
    targets: tuple[CardTarget, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 of everything on it, in hexadecimal."""
        texts: list[Json] = [self.sentence, self.proof, self.shown, self.undo, self.arguments]
        texts += map(encode, self.targets)
        return hashlib.sha256(canonical_bytes(texts)).hexdigest()


async def draw(tool: Tool, args: JsonObject, asked: ApprovalRequested, context: ToolContext) -> Card:
    """Draw the real card of a requested call from the present state of the world.

    Raises Conflict if the call would now do something else than when it was requested.
    """
    try:
        plan = await planned(tool, tool.check(args), context)
        card = real_card(plan.of(tool.meta), await preview_of(tool, plan, context), plan.args)
    except OzzieError as error:
        raise changed(str(error)) from None
    if not _is_of(card, asked):
        raise changed()
    return card


def changed(why: str = "") -> Conflict:
    """Return the error for a card that can no longer be drawn."""
    return Conflict(
        " ".join(filter(None, ["The call would do something else by now than when it was asked.", why])),
        hint="Reject it, or have it asked again.",
        code="approval.changed",
    )


def real_card(
    meta: ToolMeta, preview: Preview, args: JsonObject, clean: Callable[[str], str] = lambda text: text
) -> Card:
    # A diff line cut at a carriage return would continue as a line that nobody added.
    proof = preview.proof.replace("\r", "\\r") if preview.shown == "diff" else preview.proof
    named = groupby(named_by(meta, args), lambda each: (each.kind, each.argument))
    return Card(
        sentence=visible_proof(clean(preview.sentence)),
        proof=visible_proof(clean(proof)),
        shown=preview.shown,
        undo=visible_proof(clean(preview.undo)),
        arguments=visible_json(args),
        targets=tuple(
            CardTarget(kind=kind, argument=argument, names=tuple(_shown_name(each, clean) for each in names))
            for (kind, argument), names in named
        ),
    )


def _shown_name(named: Named, clean: Callable[[str], str]) -> TargetName:
    if named.value is None:
        return TargetName(text=spelled(clean(named.given)), is_read=False)
    value = clean(named.value)
    return TargetName(
        text=value if named.kind in NEED_NO_QUOTES else spelled(value),
        written=spelled(clean(named.written)) if named.written else "",
    )


def stored_card(meta: ToolMeta, preview: Preview, args: JsonObject, known: Sequence[str]) -> Card:
    """Return the card with all arguments and without secrets, both `known` ones and what looks like one. What the call
    names is read again from the arguments without them, since the name of an argument may tell that it has a secret."""
    return real_card(meta, preview, redacted(args, known), lambda text: redact_text(text, known))


def redacted(args: JsonObject, known: Sequence[str]) -> JsonObject:
    found = redact(args, known)
    assert isinstance(found, dict)
    return found


def shortened(card: Card) -> str:
    """Return a card's arguments for the log. Long values are cut: the proof shows them."""
    return cut_end(visible_json(_shortened(json.loads(card.arguments))), MOST_ARGUMENTS)


def fewer(targets: Sequence[CardTarget]) -> tuple[CardTarget, ...]:
    """Return what a call names for the log: of each argument the first names, unless they are very long."""
    return tuple(map(_with_fewer, targets))


def _with_fewer(target: CardTarget) -> CardTarget:
    names = tuple(each for each in target.names[:MOST_NAMES] if len(each.text) + len(each.written) <= _MOST_NAME)
    return replace(target, names=names, more=len(target.names) - len(names))


async def preview_of(tool: Tool, plan: Plan, context: ToolContext) -> Preview:
    """Return what a person is shown of a call. Raises only OzzieError."""
    with only_ozzie_errors(tool, "said what it would do"):
        async with asyncio.timeout(tool.meta.timeout_s):
            preview = await asyncio.to_thread(plan.preview or (lambda: _usual(tool, plan)))
    # Who answers sees the questions of all projects, and paths within them look alike.
    if not context.is_elsewhere:
        return preview
    return replace(preview, sentence=f"In {quoted(str(context.project))}: {preview.sentence}")


def _is_of(card: Card, asked: ApprovalRequested) -> bool:
    """Whether the card is the requested one. If nothing was redacted, the stored texts are compared."""
    if asked.card:
        return card.digest == asked.card
    same = card.sentence == asked.sentence and card.undo == asked.undo and fewer(card.targets) == asked.targets
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
    """The preview of a tool that has none of its own: show all arguments, so that nothing runs unseen."""
    targets = [plan.args.get(target.argument) for target in tool.meta.targets]
    on = next((f" on {quoted(value)}" for value in targets if isinstance(value, str)), "")
    proof = visible_json(plan.args) if plan.args else ""
    return Preview(sentence=f"Run `{tool.meta.name}`{on}?", proof=proof, shown="text" if proof else "")
