"""`ozzie secrets`: set, list, remove and replace secrets. Works on the vault itself, with or without a gateway."""

import argparse
import getpass
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ozzie_server_ext.cli.http import Answered, NotRunning, post
from ozzie_server_ext.cli.parser import Misused
from ozzie_server_ext.cli.terminal import WAYS, agreed, cell, local_time, print_json, print_result
from ozzie_server_ext.config.home import find_home, key_folder
from ozzie_server_ext.domain.errors import Conflict, InputError, OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.render.text import counted, visible_label
from ozzie_server_ext.vault.document import SlotKind
from ozzie_server_ext.vault.errors import NoKeyring, VaultLocked
from ozzie_server_ext.vault.scope import Scope, Secret, checked_name, checked_value
from ozzie_server_ext.vault.slots import checked_passphrase
from ozzie_server_ext.vault.terminal import ask_hidden, ask_passphrase, line_from_stdin, value_from_stdin
from ozzie_server_ext.vault.transfer import export_to, import_from
from ozzie_server_ext.vault.vault import Entry, Listed, Vault

UNLOCK_S = 30.0


def set_secret(options: argparse.Namespace) -> int:
    """Store a value under a name. Raises OzzieError."""
    name, scope = checked_name(options.name), _scope(options)
    value = _value(options)
    find_home(os.environ).create()
    stored = _vault().set(name, scope, value, by=user_name(), ask=ask_passphrase)
    return _report(stored, f"{_label(stored)} is stored, version {stored.version}.", as_json=options.json)


def list_secrets(options: argparse.Namespace) -> int:
    """Print the names, and nothing about the values. Raises OzzieError."""
    vault = _vault()
    with suppress(VaultLocked, NoKeyring):  # names can be listed without a person
        vault.unlock()
    found = vault.listing()
    if options.json:
        print_json([_json(secret) for secret in found])
        return 0
    if not found:
        print("No secrets. Store one with: ozzie secrets set NAME")
    for secret in found:
        when = local_time(secret.changed_at)
        print(
            f"{cell(secret.name, 32)}  {cell(secret.scope, 28)}  version {secret.version:<4}  {when}  "
            f"{visible_label(secret.by)}"
        )
    if vault.locked:
        print("The vault is locked, so these names could not be verified.")
    return 0


def remove_secret(options: argparse.Namespace) -> int:
    """Remove a secret, after asking back. Raises NoSecret, OzzieError, Misused without a terminal to ask at."""
    vault, name, scope = _vault(), checked_name(options.name), _scope(options)
    vault.expect(name, scope)  # report a missing secret before asking back
    if not options.yes and not agreed(f"Remove {_named(name, scope)}? It can't be undone.", about="remove it"):
        print("Nothing was removed.", file=sys.stderr)
        return 1
    gone = vault.remove(name, scope, by=user_name(), ask=ask_passphrase)
    return _report(gone, f"{_label(gone)} is removed.", as_json=options.json)


def rotate(options: argparse.Namespace) -> int:
    """Replace one value, or encrypt all of them with a new key. Raises NoSecret, OzzieError."""
    vault, scope = _vault(), _scope(options)
    if options.name is None:
        if options.stdin or scope.owner:
            raise Misused(
                "Without a name, all secrets are encrypted with a new key; that takes no value.", hint=_help(options)
            )
        count = vault.rekey(by=user_name(), ask=ask_passphrase)
        _notify_gateway()
        return print_result(
            {"rekeyed": count},
            f"{counted(count, 'secret')} encrypted with a new key. The values are the same: anybody with the old key",
            "and an old copy of the file still has them, until you replace them at their providers.",
            as_json=options.json,
        )
    name = checked_name(options.name)
    vault.expect(name, scope)  # before asking for a value that would be refused
    stored = vault.replace(name, scope, _value(options), by=user_name(), ask=ask_passphrase)
    line = f"{_label(stored)} is replaced, version {stored.version}. The old value is gone from the vault."
    return _report(stored, line, as_json=options.json)


def protect(options: argparse.Namespace) -> int:
    """Choose what opens the vault. Raises OzzieError."""
    unknown = [way for way in options.ways if way not in WAYS]
    if unknown:  # not repeated: it may be a misplaced passphrase
        raise Misused(f"--with takes one of {', '.join(WAYS)}.", hint=_help(options))
    ways: list[SlotKind] = list(dict.fromkeys(options.ways))
    find_home(os.environ).create()
    vault = _vault()
    ask = line_from_stdin if options.stdin else ask_passphrase
    vault.unlock(ask)
    passphrase = _new_passphrase("vault", from_stdin=options.stdin) if "passphrase" in ways else ""
    vault.protect(ways, by=user_name(), passphrase=passphrase, ask=ask)
    _notify_gateway()
    return print_result(
        {"opens_with": ways},
        f"The vault opens with {' or '.join(WAYS[way] for way in ways)} from now on, and with nothing else.",
        "If that is lost, the values are lost. Keep a copy: ozzie secrets export FILE",
        as_json=options.json,
    )


def export_secrets(options: argparse.Namespace) -> int:
    """Write all secrets into a file that a passphrase opens. Raises OzzieError."""
    vault = _vault()
    vault.unlock(line_from_stdin if options.stdin else ask_passphrase)
    entries = vault.entries()
    path = Path(options.file).absolute()
    export_to(path, entries, _new_passphrase("file", from_stdin=options.stdin))
    line = f"{counted(len(entries), 'secret')} exported to {path}. Only its passphrase opens it."
    return print_result({"exported": len(entries), "file": str(path)}, line, as_json=options.json)


def import_secrets(options: argparse.Namespace) -> int:
    """Store all secrets of an exported file. Raises OzzieError."""
    path = Path(options.file).absolute()
    passphrase = line_from_stdin() if options.stdin else ask_hidden("Passphrase of the file: ")
    entries = import_from(path, passphrase)

    def refuse(replaced: Sequence[Entry]) -> None:
        if replaced and not options.replace:
            raise Conflict(
                f"{counted(len(replaced), 'secret')} of the file would replace other values, "
                f"such as {_label(replaced[0])}. Nothing was imported.",
                hint="Give --replace to use the values of the file.",
                code="secret.exists",
            )

    find_home(os.environ).create()
    ask = line_from_stdin if options.stdin else ask_passphrase
    count = _vault().import_entries(entries, by=user_name(), allow=refuse, ask=ask)
    _notify_gateway()
    unchanged = len(entries) - count
    line = f"{counted(count, 'secret')} imported. Already here: {unchanged}."
    return print_result({"imported": count, "unchanged": unchanged}, line, as_json=options.json)


def unlock(options: argparse.Namespace) -> int:
    """Let the running gateway open the vault, until it ends. Raises NotRunning, Answered."""
    has_passphrase = "passphrase" in _vault().ways()
    line = "The vault has no passphrase, so there is nothing to unlock."
    if has_passphrase:
        passphrase = line_from_stdin() if options.stdin else ask_passphrase()
        post("secrets/unlock", {"passphrase": passphrase}, timeout_s=UNLOCK_S)
        line = "The vault is open for the gateway until it ends, or until ozzie secrets lock."
    return print_result({"unlocked": has_passphrase}, line, as_json=options.json)


def lock(options: argparse.Namespace) -> int:
    """Have the gateway forget the passphrase. Raises NotRunning, Answered."""
    post("secrets/lock", {})
    return print_result({"locked": True}, "The vault is locked for the gateway.", as_json=options.json)


def _vault() -> Vault:
    return Vault(find_home(os.environ).secrets, key_folder, SystemClock())


def _scope(options: argparse.Namespace) -> Scope:
    if options.project is not None and options.plugin is not None:
        raise Misused("A secret belongs to a project or to a plugin, not to both.", hint=_help(options))
    if options.project is not None:
        return Scope("project", os.path.realpath(options.project))
    return Scope("plugin", options.plugin) if options.plugin is not None else Scope()


def _value(options: argparse.Namespace) -> Secret:
    """Return the value as typed, or from standard input; never from an argument, which others could see."""
    if options.stdin:
        return checked_value(value_from_stdin())
    return checked_value(ask_hidden(f"Value of {options.name} (it is not shown): "))


def _new_passphrase(what: str, *, from_stdin: bool) -> str:
    if from_stdin:
        return checked_passphrase(line_from_stdin())
    typed = checked_passphrase(ask_hidden(f"New passphrase of the {what}: "))
    if ask_hidden("The same once more: ") != typed:
        raise InputError("The two passphrases differ. Nothing was changed.", code="vault.passphrase")
    return typed


def _report(secret: Listed, line: str, *, as_json: bool) -> int:
    _notify_gateway()
    return print_result(_json(secret), line, as_json=as_json)


def _notify_gateway() -> None:
    """Have a running gateway record the change now; otherwise the next one does, at its start."""
    try:
        post("secrets/refresh", {})
    except NotRunning:
        return
    except (OzzieError, OSError) as error:
        reason = str(error) if isinstance(error, Answered) else "it does not answer"
        print(f"The gateway could not be notified: {visible_label(reason)}. It will notice by itself.", file=sys.stderr)


def _json(secret: Listed) -> JsonObject:
    return {
        "name": secret.name,
        "scope": str(secret.scope),
        "version": secret.version,
        "changed_at": secret.changed_at,
        "by": secret.by,
    }


def _label(secret: Listed | Entry) -> str:
    return _named(secret.name, secret.scope)


def _named(name: str, scope: Scope) -> str:
    return f"{name} ({visible_label(str(scope))})" if scope.owner else name


def user_name() -> str:
    """Return the name of the account that runs this."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "user"


def _help(options: argparse.Namespace) -> str:
    return f"See {options.prog} --help."
