"""What an approval covers: exactly the call that was shown, or similar calls of the session."""

import hashlib

from msgspec.structs import replace

from ozzie_server_ext.domain.approvals import SessionGrant, may_cover
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.decision import Action, Caller
from ozzie_server_ext.policy.engine import Ruling
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.render.text import quoted

_MOST_TARGETS = 8
"""A session approval is offered only up to here: nobody reads a longer list of folders and hosts."""


def binding(
    meta: ToolMeta,
    args: JsonObject,
    effect: JsonObject | None,
    ruling: Ruling,
    caller: Caller,
    content: Content,
) -> str:
    """Return the SHA-256, in hexadecimal, of everything an approval is for: the tool and its contract, the arguments,
    the project, the effect, the origin of the content that the call is made from, and the rules that asked."""
    snapshot: JsonObject = {
        "tool": meta.tool_id,
        "version": meta.version,
        "args": args,  # with the contract, they determine all that the call names
        "project": caller.project,
        "effect": effect,
        "labels": [*content.labels],
        "sources": [*content.sources],
        "rule": ruling.verdict.rule,
        "policy": ruling.asking,
    }
    if meta.reaches:
        snapshot["reaches"] = _reached(meta)
    return hashlib.sha256(canonical_bytes(snapshot)).hexdigest()


def cover_of(action: Action, rule: str) -> SessionGrant | None:
    """Return what a session approval of this call would cover: the same tool in the folders of its files (a file in no
    folder covers only itself) and on its hosts, or else, also if it names anything else, this very call. None if no
    session approval is offered, as for what a remote agent sent: a grant names kinds of content, not whose they are, so
    a yes for one agent would be one for all of them."""
    meta = action.meta
    if Label.REMOTE in action.reading.content.labels:
        return None
    if not may_cover(meta) or action.commands or len(action.paths) + len(action.hosts) > _MOST_TARGETS:
        return None
    hosts = tuple(dict.fromkeys(str(host) for host in action.hosts if host is not None))
    if None in action.hosts:
        return None
    folders: dict[tuple[str, ...], None] = {}
    files: dict[tuple[str, ...], None] = {}
    for path in action.paths:
        if not path:  # unreadable, or the project itself
            return None
        if len(path) > 1:
            folders[path[:-1]] = None
        else:
            files[path] = None
    is_very_call = bool(action.named) or not (folders or files or hosts)
    return SessionGrant(
        tool_id=meta.tool_id,
        version=meta.version,
        project=action.caller.project,
        rule=rule,
        below=tuple(folders),
        on=tuple(files),
        hosts=hosts,
        labels=action.reading.content.labels,
        arguments=_digest(action) if is_very_call else "",
        said=_scope(meta, (), (), ()) if is_very_call else _scope(meta, tuple(folders), tuple(files), hosts),
    )


def _digest(action: Action) -> str:
    """Return the SHA-256 of the arguments, with what the call reaches beyond them."""
    reached = _reached(action.meta)
    args: JsonObject = dict(action.args)
    return hashlib.sha256(canonical_bytes([args, reached] if reached else args)).hexdigest()


def _reached(meta: ToolMeta) -> list[Json]:
    return [encode(each) for each in meta.reaches]


def covers(cover: SessionGrant, action: Action, rule: str) -> bool:
    here = cover_of(action, rule)
    if here is None:
        return False
    same = here == replace(cover, below=here.below, on=here.on, hosts=here.hosts, said=here.said)
    if bool(cover.below or cover.on) != bool(action.paths):  # a call that names no file may touch all of them
        return False
    if bool(cover.hosts) != bool(action.hosts) or not set(here.hosts) <= set(cover.hosts):
        return False
    # Paths are compared literally: as far as is known here, another spelling is another file.
    return same and all(path is not None and _is_in(path, cover) for path in action.paths)


def _is_in(path: tuple[str, ...], cover: SessionGrant) -> bool:
    return path in cover.on or any(path[:-1][: len(folder)] == folder for folder in cover.below)


def _scope(
    meta: ToolMeta, folders: tuple[tuple[str, ...], ...], files: tuple[tuple[str, ...], ...], hosts: tuple[str, ...]
) -> str:
    return f"`{meta.name}` {places(folders, files, hosts) or 'with these very arguments'}"


def places(
    folders: tuple[tuple[str, ...], ...], files: tuple[tuple[str, ...], ...], hosts: tuple[str, ...] = ()
) -> str:
    """Return where something happens, as "in `notes/` and on `a.md`"."""
    below = ", ".join(quoted("/".join(parts) + "/") for parts in folders)
    on = ", ".join(quoted("/".join(parts)) for parts in files)
    at = ", ".join(map(quoted, hosts))
    return " and ".join(f"{word} {named}" for word, named in (("in", below), ("on", on), ("at", at)) if named)
