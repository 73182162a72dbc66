"""By which way an answer comes: told by who gives it, never by what a client says of itself (TL-4, THREATS 5)."""

from ozzie_server_ext.domain.approvals import Way
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.tasks.approvals import Answerer


def answerer_of(principal: Principal) -> Answerer:
    """Who answers an approval: a kernel for its own session alone, anybody else for all of them."""
    return Answerer(name=principal.name, way=_way(principal), session_id=principal.session_id)


def _way(principal: Principal) -> Way:
    match principal.kind:
        case "kernel":
            return Way.RELAY
        case "user":
            return Way.BROWSER
        case "local":
            # An attached server relays its pages with the gateway's own token, and says where their paths begin.
            return Way.CLI if principal.root is None else Way.BROWSER
