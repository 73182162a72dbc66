"""`ozzie mcp login` and `logout`: a person's sign-in to a server at an address (OAuth). No gateway is needed."""

import argparse
import os
import sys

from ozzie_server_ext.cli.mcp_browser import Wish, sign_in
from ozzie_server_ext.cli.mcp_settle import trusted_server, values_of
from ozzie_server_ext.cli.parser import Misused
from ozzie_server_ext.cli.secrets import user_name
from ozzie_server_ext.cli.settling import project_of, vault_of, with_host
from ozzie_server_ext.cli.terminal import print_result
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.plugins.connections import reached
from ozzie_server_ext.plugins.sign_ins import SignIns
from ozzie_server_ext.plugins.tool_host import ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Client, Grant, Remote
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.vault.terminal import ask_hidden, ask_passphrase, line_from_stdin


def login(options: argparse.Namespace) -> int:
    """Sign in to a trusted server at an address. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    server, settled = trusted_server(home, project, options.name)
    name = visible_label(server.name)
    if options.client_secret and not options.client_id:
        raise Misused("A client's secret belongs to its id.", hint="Give it with --client-id.")
    if not options.yes and not sys.stdin.isatty():
        raise Misused(f"Nobody can be asked here whether to sign in to {name}.", hint="Say so with --yes.")
    remote = reached(server.listed.how, settled, values_of(home, project, server.slug, settled))
    if not isinstance(remote, Remote):
        raise InputError(f"{name} is started here. Only servers at an address have a sign-in.", code="mcp.no_address")
    client = None
    if options.client_id:
        client = Client(id=options.client_id, secret=_client_secret() if options.client_secret else "")
    wish = Wish(name=server.name, key=server.key, url=remote.url, client=client, scope=options.scope, yes=options.yes)
    vault = vault_of(home)
    vault.unlock(ask_passphrase)  # before anybody signs in for nothing

    async def run(host: ToolHost) -> Grant:
        sign_ins = SignIns(home, vault, host)
        grant = await sign_in(host, sign_ins, wish)
        await sign_ins.replace(server.key, server.name, grant, by=user_name())
        return grant

    try:
        grant = with_host(home, run)
    except ServerFailed as error:
        raise Unavailable(f"Nobody is signed in to {name}. {error}", hint=error.hint, code=error.code) from None
    report = {"name": server.name, "issuer": grant.issuer, "scope": grant.scope, "expires_at": grant.expires_at or None}
    return print_result(report, f"You are signed in to {name}.", as_json=options.json)


def _client_secret() -> str:
    return ask_hidden("Secret of the client: ") if sys.stdin.isatty() else line_from_stdin()


def logout(options: argparse.Namespace) -> int:
    """Forget a sign-in, and how Ozzie is known there. Raises OzzieError."""
    home, project = find_home(os.environ), project_of(options)
    server, _ = trusted_server(home, project, options.name)
    vault = vault_of(home)
    vault.unlock(ask_passphrase)

    async def run(host: ToolHost) -> bool:
        return await SignIns(home, vault, host).forget(server.key, server.name, by=user_name())

    was_there = with_host(home, run)
    name = visible_label(server.name)
    words = f"Your sign-in to {name} is forgotten here." if was_there else f"You were not signed in to {name}."
    end = ["What it was allowed to do can be taken back in your account there."] if was_there else []
    return print_result({"name": server.name, "signed_out": was_there}, words, *end, as_json=options.json)
