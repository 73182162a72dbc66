"""The ways by which messages come, as rules name them."""

from enum import StrEnum


class Channel(StrEnum):
    """`notebook`: a cell; `cli`: `ozzie ask`, or another program with the gateway's own token; `page`: a view in the
    browser; `rest`: a request over HTTP.

    Logs of earlier versions have `local` and `user` for `cli` and `page`.
    """

    NOTEBOOK = "notebook"
    CLI = "cli"
    PAGE = "page"
    REST = "rest"


DELEGATED = "skill"
"""The channel of a message that one task hands over to another. No rule names it: whoever asked for the whole is its
caller."""
