"""What a failed model call says to a person: one sentence, and what to do next (UX §10)."""

from ozzie_server_ext.models.driver import ModelChoice, ModelError, ModelErrorCode

RETRYABLE: frozenset[ModelErrorCode] = frozenset(
    {
        "provider.rate_limited",
        "provider.server",
        "provider.unreachable",
        "provider.timeout",
        "provider.broken_stream",
        "provider.garbage",
        "worker.lost",
        "worker.unavailable",
    }
)

_MIDDLE = (
    '"{alias}" stopped in the middle of its answer. What came is kept.',
    "Run the cell again to continue.",
)
_WORDS: dict[ModelErrorCode, tuple[str, str]] = {
    "provider.auth": (
        'The model provider refused the key for "{alias}".',
        "Check {key}, or choose another model with %model. Your message is kept.",
    ),
    "provider.forbidden": (
        'The model provider does not let this key use "{alias}" ({model}).',
        "Check what {key} is allowed to use, or choose another model with %model. Your message is kept.",
    ),
    "provider.not_found": (
        'The model provider knows no model "{model}", which "{alias}" names.',
        "Check the model's name and base_url in the configuration, or choose another model with %model.",
    ),
    "provider.rate_limited": (
        '"{alias}" is busy.',
        "Run the cell again{after}, or choose another model with %model. Your message is kept.",
    ),
    "provider.server": (
        'The model provider of "{alias}" failed while answering.',
        "Run the cell again, or choose another model with %model. Your message is kept.",
    ),
    "provider.bad_request": (
        'The model provider of "{alias}" did not take the request.',
        "Its own message is in the details; another model may take it: %model. Your message is kept.",
    ),
    "provider.context_length": (
        'This conversation is longer than "{alias}" ({model}) can read.',
        "Start a new session, or choose a model that reads more with %model. Your message is kept.",
    ),
    "provider.content_filter": (
        'The model provider of "{alias}" refused the content of this conversation.',
        "Change the message, or choose another model with %model.",
    ),
    "provider.unreachable": (
        'The model provider of "{alias}" can\'t be reached.',
        "Check the network and base_url in the configuration, or choose another model with %model. "
        "Your message is kept.",
    ),
    "provider.timeout": (
        '"{alias}" did not answer in time.',
        "Run the cell again, or choose another model with %model. Your message is kept.",
    ),
    "provider.broken_stream": (
        'The connection to "{alias}" broke before it answered.',
        "Run the cell again. Your message is kept.",
    ),
    "provider.garbage": (
        'What came from "{alias}" is not an answer in the format of its driver.',
        "Check base_url and driver in the configuration, or choose another model with %model. Your message is kept.",
    ),
    "worker.lost": (
        "The model worker stopped before it answered.",
        "Run the cell again: Ozzie has started another one. Your message is kept.",
    ),
    "worker.unavailable": (
        "The model worker does not run.",
        "Look at its log in the folder logs of Ozzie's home, then run the cell again. Your message is kept.",
    ),
}


def model_error(
    code: ModelErrorCode,
    choice: ModelChoice,
    *,
    detail: str = "",
    after_s: float | None = None,
    streamed: bool = False,
    key_name: str = "",
) -> ModelError:
    """The error of `code` for a call of `choice`, in words. `key_name`: the environment variable the key came from."""
    message, hint = _MIDDLE if streamed and code in RETRYABLE else _WORDS[code]
    values = {
        "alias": choice.alias,
        "model": choice.model,
        "key": f"the environment variable {key_name}" if key_name else "its auth entry in the configuration",
        "after": "" if after_s is None else f" in {max(1, round(after_s))} s",
    }
    return ModelError(
        message.format(**values),
        hint=hint.format(**values),
        code=code,
        retryable=code in RETRYABLE,
        streamed=streamed,
        after_s=after_s,
        detail=detail,
    )
