"""Our own state icons: 16-grid, 1.5 px line, coloured by role, always beside a word."""

_RING = '<circle cx="8" cy="8" r="5.75"/>'
_DIAMOND = '<path d="M8 2 14 8 8 14 2 8Z"/><path d="M8 5.4v3M8 10.4v.1"/>'
_TRIANGLE = '<path d="M8 2.2 14.2 13H1.8Z"/><path d="M8 6.2v3M8 11.1v.1"/>'
_CROSS = f'{_RING}<path d="M6 6 10 10M10 6 6 10"/>'
_DASH = f'{_RING}<path d="M5.5 8h5"/>'
_TURNING = '<path d="M8 2.25A5.75 5.75 0 1 1 2.25 8"/>'

# name -> role, shape
_ICONS: dict[str, tuple[str, str]] = {
    "Queued": ("idle", '<circle cx="8" cy="8" r="5.75" stroke-dasharray="2 2.5"/>'),
    "Working": ("run", _TURNING),
    "Waiting for you": ("ask", _DIAMOND),
    "Waiting for your answer": ("ask", _DIAMOND),
    "Waiting": ("idle", _DIAMOND),
    "Needs a decision": ("bad", _TRIANGLE),
    "Paused": ("idle", '<path d="M6 3.5v9M10 3.5v9"/>'),
    "Done": ("ok", f'{_RING}<path d="M5.4 8.2 7.2 10 10.7 6.2"/>'),
    "Failed": ("bad", _CROSS),
    "Stopped": ("idle", _DASH),
    "Skipped": ("idle", '<path d="M4 8h8"/>'),
    "asked": ("idle", '<path d="M3.5 8h.1M8 8h.1M12.5 8h.1" stroke-width="2.2"/>'),
    "running": ("run", _TURNING),
    "done": ("ok", '<path d="M3.5 8.5 6.5 11.5 12.5 4.5"/>'),
    "failed": ("bad", _CROSS),
    "cancelled": ("idle", _DASH),
    "denied": ("bad", '<path d="M8 2 13 4v4c0 3-2 5-5 6-3-1-5-3-5-6V4Z"/>'),
    "waiting": ("ask", _DIAMOND),
    "unknown": ("bad", _TRIANGLE),
}
_TURN_S = 1.2


def shape(name: str) -> tuple[str, str]:
    """Return role and shape of a state, for a picture with its own colours."""
    return _ICONS[name]


def icon(name: str, phase_s: float = 0.0) -> str:
    """Return the SVG of a state. Every update restarts the running ring, so `phase_s` says how far it has turned."""
    role, shape = _ICONS[name]
    turning = shape is _TURNING
    spin = f' style="animation-delay:-{phase_s % _TURN_S:.2f}s"' if turning else ""
    return (
        f'<svg class="oz-i oz-{role}{" oz-spin" if turning else ""}" viewBox="0 0 16 16" aria-hidden="true"{spin}>'
        f"{shape}</svg>"
    )
