"""A sign-in to an MCP server at an address (OAuth), as `ozzie mcp add` and `trust` offer it before they look at the
server."""

import argparse
import sys

import msgspec

from ozzie_server_ext.cli.mcp_browser import Wish, sign_in
from ozzie_server_ext.cli.secrets import user_name
from ozzie_server_ext.cli.settling import vault_of, with_host
from ozzie_server_ext.cli.terminal import agreed
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.plugins.sign_ins import SignIns
from ozzie_server_ext.plugins.tool_host import OnRenew, ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import Grant, Remote
from ozzie_server_ext.render.text import LINE_WIDTH, visible_label, wrapped
from ozzie_server_ext.vault.terminal import ask_passphrase


class Signing:
    """A person's sign-in to a server that is looked at; it is kept once they trust it."""

    def __init__(self, home: Home, name: str, key: str) -> None:
        self._home = home
        self._name = name
        self._key = key
        self._vault = vault_of(home)
        self._grant: Grant | None = None
        self._url = ""

    async def signed(self, host: ToolHost, remote: Remote) -> tuple[Remote, OnRenew | None]:
        """Return the server with the token of the sign-in of now, or an earlier one."""
        self._url = remote.url
        if self._grant is not None:
            return msgspec.structs.replace(remote, token=self._grant.access_token), None
        return await SignIns(self._home, self._vault, host).signed(self._key, self._name, remote)

    def sign_in(self, error: ServerFailed, options: argparse.Namespace) -> None:
        """Offer to sign in after this error. Raises it again if that would not help, or nobody is there."""
        if error.code not in ("mcp.sign_in", "mcp.signed_out") or options.json or not sys.stdin.isatty():
            if error.code == "mcp.sign_in" and not sys.stdin.isatty():
                raise ServerFailed(str(error), code=error.code, hint="Do this at a terminal, to sign in.") from None
            raise error
        print(*wrapped(f"{visible_label(self._name)}: {error}", LINE_WIDTH), sep="\n", flush=True)
        if not options.yes and not agreed("Sign in through a browser?", about=f"sign in to {self._name}"):
            hint = "Give it a key with --header 'Authorization: Bearer KEY', if it has any."
            raise ServerFailed(str(error), code=error.code, hint=hint) from None
        self._vault.unlock(ask_passphrase)
        wish = Wish(name=self._name, key=self._key, url=self._url, scope=error.scope, yes=options.yes)
        self._grant = with_host(self._home, lambda host: sign_in(host, SignIns(self._home, self._vault, host), wish))

    def lines(self) -> list[str]:
        """Return what a person is told before they say yes."""
        return [] if self._grant is None else ["Your sign-in would be kept in the vault."]

    def keep(self) -> None:
        """Store the sign-in of now."""
        if (grant := self._grant) is not None:
            with_host(
                self._home,
                lambda host: SignIns(self._home, self._vault, host).replace(
                    self._key, self._name, grant, by=user_name()
                ),
            )
