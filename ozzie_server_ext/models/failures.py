"""The words for a failed model call: one sentence, and what to do next."""

from urllib.parse import urlsplit

import msgspec

from ozzie_server_ext.models.driver import ModelChoice, ModelError, ModelErrorCode
from ozzie_server_ext.render.text import visible_label

_MAY_BREAK_OFF: frozenset[ModelErrorCode] = frozenset(
    {
        "provider.token_unavailable",
        "provider.rate_limited",
        "provider.server",
        "provider.unreachable",
        "provider.timeout",
        "provider.broken_stream",
        "provider.garbage",
        "worker.refused",
        "worker.lost",
        "worker.unavailable",
    }
)
MAX_QUOTED_CHARS = 300


class ErrorContext(msgspec.Struct, frozen=True):
    """Where a call goes, as far as a sentence needs it. `key_name`: the source of the key; `key_place`: where that is.
    `address` is empty for a provider's own."""

    key_name: str = ""
    key_place: str = ""
    address: str = ""

    @property
    def shown(self) -> str:
        """The address without its path and user name, which may be private."""
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else self.address

    @property
    def has_no_path(self) -> bool:
        return bool(self.address) and urlsplit(self.address).path in ("", "/")


_OR_ANOTHER = "or choose another model with %model. Your message is kept."
_MIDDLE = ('"{alias}" stopped in the middle of its answer. What came is kept.', "Run the cell again to continue.")
_WORDS: dict[ModelErrorCode, tuple[str, str]] = {
    "provider.auth": ('The model provider refused the key for "{alias}".', f"Check {{check}}, {_OR_ANOTHER}"),
    "provider.token_refused": (
        'The token server of "{alias}" gives no token{because}',
        f"Check {{key}} and the auth entry in the configuration, {_OR_ANOTHER}",
    ),
    "provider.token_unavailable": (
        'No token came from the token server of "{alias}"{because}',
        f"Check token_url in the configuration, or run the cell again, {_OR_ANOTHER}",
    ),
    "provider.forbidden": (
        'The model provider does not let this key use "{alias}" ({model}).',
        f"Check what {{key}} is allowed to use, {_OR_ANOTHER}",
    ),
    "provider.quota": (
        'The account behind the key for "{alias}" has nothing left to spend.',
        f"Add credit at the provider, {_OR_ANOTHER}",
    ),
    "provider.not_found": (
        'The model provider knows no model "{model}", which "{alias}" names.',
        f"Check the model's name and base_url in the configuration, {_OR_ANOTHER}",
    ),
    "provider.rate_limited": ('"{alias}" is busy.', f"Run the cell again{{after}}, {_OR_ANOTHER}"),
    "provider.server": (
        'The model provider of "{alias}" failed while answering.',
        f"Run the cell again, {_OR_ANOTHER}",
    ),
    "provider.bad_request": (
        'The model provider of "{alias}" did not take the request{because}',
        "Choose another model with %model: it may take it. Your message is kept.",
    ),
    "provider.context_length": (
        'This conversation is longer than "{alias}" ({model}) can read.',
        "Start a new session, or choose a model that reads more with %model. Your message is kept.",
    ),
    "provider.content_filter": (
        'The model provider of "{alias}" refused the content of this conversation.',
        f"Change the message, {_OR_ANOTHER}",
    ),
    "provider.sees_nothing": (
        '"{alias}" ({model}) can\'t be shown pictures.',
        "Choose a model that can with %model, or write the name of the file without the @. Your message is kept.",
    ),
    "picture.lost": (
        "A picture of this conversation can't be read from Ozzie's folder any more{because}",
        "Put the folder blobs of Ozzie's home back as it was; or leave this session, and begin another with "
        "%session new. Your message is kept.",
    ),
    "provider.unreachable": (
        'The model provider of "{alias}" can\'t be reached{at}.',
        f"Check that it runs, the network, and base_url in the configuration, {_OR_ANOTHER}",
    ),
    "provider.unknown_host": (
        'The model provider of "{alias}" can\'t be reached{at}: no computer has that name.',
        f"Check base_url in the configuration, and the network, {_OR_ANOTHER}",
    ),
    "provider.no_tls": (
        'The model provider of "{alias}" does not speak https{at}.',
        f"Write http:// into its address if that is meant, {_OR_ANOTHER}",
    ),
    "provider.certificate": (
        'The certificate of the model provider of "{alias}"{at} is none that this machine trusts.',
        "Check the address; for an authority of your own, name its file in SSL_CERT_FILE and start the server again. "
        "Your message is kept.",
    ),
    "provider.timeout": ('"{alias}" did not answer in time.', f"Run the cell again, {_OR_ANOTHER}"),
    "provider.broken_stream": (
        'The connection to "{alias}" broke before it answered.',
        f"Run the cell again, {_OR_ANOTHER}",
    ),
    "provider.garbage": (
        'What came from "{alias}" is not an answer in the format of its driver.',
        f"Check base_url and driver in the configuration, {_OR_ANOTHER}",
    ),
    "worker.refused": ('The worker of "{alias}" reported an error{because}', f"Run the cell again, {_OR_ANOTHER}"),
    "worker.stranger": (
        'The worker of "{alias}"{at} belongs to another user, so it was told nothing.',
        f"Run it as yourself or as root, {_OR_ANOTHER}",
    ),
    "worker.denied": ('Ozzie may not open the socket of "{alias}"{at}.', f"Let your account use it, {_OR_ANOTHER}"),
    "worker.lost": (
        "The model worker stopped before it answered.",
        "Run the cell again: Ozzie has started another one. Your message is kept.",
    ),
    "worker.unavailable": (
        "The model worker does not run.",
        "Look at its log in the folder logs of Ozzie's home, then run the cell again. Your message is kept.",
    ),
}
_OLLAMA_WORDS: dict[ModelErrorCode, tuple[str, str]] = {
    "provider.not_found": (
        'Ollama has no model "{model}", which "{alias}" names.',
        f"Fetch it with `ollama pull {{model}}`, {_OR_ANOTHER}",
    ),
    "provider.unreachable": ("Ollama does not answer{at}.", f"Start it with `ollama serve`, {_OR_ANOTHER}"),
}
_WORKER_WORDS: dict[ModelErrorCode, tuple[str, str]] = {
    "provider.unreachable": (
        'No worker answers for "{alias}"{at}.',
        f"Start it, or check socket in the configuration, {_OR_ANOTHER}",
    ),
    "provider.garbage": (
        'What came from the worker of "{alias}" is not in the format of a worker.',
        f"Check what listens at its socket, {_OR_ANOTHER}",
    ),
}
_BY_DRIVER = {"ollama": _OLLAMA_WORDS, "worker": _WORKER_WORDS}
_TYPED = (
    'The address of "{alias}" wants a key, and one that was typed in gets none.',
    "Put it into the configuration as a provider with its key, or choose another model with %model. "
    "Your message is kept.",
)
_GEMINI_PATH = f"Its address has no path: Google's mostly ends in /v1beta. Check it, {_OR_ANOTHER}"
_OPENAI_PATH = f"Its address has no path: one that speaks OpenAI's format mostly ends in /v1. Check it, {_OR_ANOTHER}"
_SPEAK_OPENAI = frozenset({"openai", "openai-compatible", "vllm"})
_NOWHERE = ErrorContext()
_KINDS = {"": "the environment variable", "environment": "the environment variable", "vault": "the secret"}


def model_error(
    code: ModelErrorCode,
    choice: ModelChoice,
    *,
    detail: str = "",
    after_s: float | None = None,
    streamed: bool = False,
    begun: bool = False,
    place: ErrorContext = _NOWHERE,
) -> ModelError:
    """Return the error of `code` for a call of `choice`."""
    message, hint = _words(code, choice, place, streamed=streamed)
    quoted = visible_label(detail)[:MAX_QUOTED_CHARS]
    values = {
        "alias": choice.label,
        "model": choice.model,
        "key": (key := _key_in_words(place)),
        "check": f"it with ozzie secrets set {place.key_name}" if place.key_place == "vault" else key,
        "after": "" if after_s is None else f" in {max(1, round(after_s))} s",
        "at": f" at {place.shown}" if place.address else "",
        "because": f': "{quoted}".' if quoted else ".",
    }
    return ModelError(
        message.format(**values),
        hint=hint.format(**values),
        code=code,
        streamed=streamed,
        begun=begun,
        after_s=after_s,
        detail=detail,
    )


def _key_in_words(place: ErrorContext) -> str:
    if not place.key_name:
        return "its auth entry in the configuration"
    kind = _KINDS.get(place.key_place)
    return f"{kind} {place.key_name}" if kind else place.key_name


def _words(code: ModelErrorCode, choice: ModelChoice, place: ErrorContext, *, streamed: bool) -> tuple[str, str]:
    if streamed and code in _MAY_BREAK_OFF:
        return _MIDDLE
    if code in (own := _BY_DRIVER.get(choice.driver, {})):
        return own[code]
    if code == "provider.auth" and choice.provider.startswith(f"{choice.driver}@"):
        return _TYPED
    message, hint = _WORDS[code]
    if code in ("provider.not_found", "provider.garbage") and place.has_no_path:
        if choice.driver in _SPEAK_OPENAI:
            return message, _OPENAI_PATH
        if choice.driver == "gemini":
            return message, _GEMINI_PATH
    return message, hint
