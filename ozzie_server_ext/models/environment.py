"""What the environment says of providers: their keys, and addresses other than their own (MD-7).

The variables are those that the providers' own clients and litellm read. The model worker does not see them: what
counts of them reaches it over its socket.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from ozzie_server_ext.config.address import is_address
from ozzie_server_ext.domain.errors import Unavailable

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "litellm": ("LITELLM_PROXY_API_KEY",),
}
"""Where each driver's key is looked for when a model is named directly as `driver/model`."""

ADDRESS_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "gemini": ("GEMINI_API_BASE",),
    "deepseek": ("DEEPSEEK_API_BASE",),
    "ollama": ("OLLAMA_HOST", "OLLAMA_API_BASE"),
    "vllm": ("HOSTED_VLLM_API_BASE",),
    "litellm": ("LITELLM_PROXY_API_BASE",),
}
"""Where each driver's address is looked for when none is configured."""

NOWHERE_BY_ITSELF = frozenset({"vllm", "openai-compatible", "litellm"})
"""Drivers of servers that anybody may run: without an address, their calls would go to somebody else's."""

OLLAMA_PORT = 11434


def base_url_of(driver: str, env: Mapping[str, str]) -> str:
    """The address that the environment gives for a driver; for Ollama always one, for others maybe none.

    Raises Unavailable for what is no address, and where a driver must have one.
    """
    for variable in ADDRESS_VARIABLES.get(driver, ()):
        if value := env.get(variable, "").strip():
            address = _ollama_address(value) if variable == "OLLAMA_HOST" else value
            if not is_address(address):
                raise Unavailable(
                    f"{variable} is not the address of a server.",
                    hint=f"Set {variable} to one that begins with http:// or https://, or unset it.",
                    code="model.address",
                )
            return address
    if driver in NOWHERE_BY_ITSELF:
        variables = ADDRESS_VARIABLES.get(driver, ())
        raise Unavailable(
            f'The driver "{driver}" needs an address, and none is configured.',
            hint=" or ".join(["Give the model a base_url in the configuration", *(f"set {name}" for name in variables)])
            + ".",
            code="model.address",
        )
    return f"http://127.0.0.1:{OLLAMA_PORT}" if driver == "ollama" else ""


def _ollama_address(value: str) -> str:
    """OLLAMA_HOST as an address: the scheme and the port may be missing, and `0.0.0.0` is where a server listens."""
    has_scheme = "://" in value
    address = value if has_scheme else f"http://{value}"
    if not has_scheme and value.startswith(":"):
        address = f"http://127.0.0.1{value}"
    try:
        parts = urlsplit(address)
        if parts.port is None and not has_scheme:
            address = f"http://{parts.netloc.rstrip(':')}:{OLLAMA_PORT}{parts.path}"
    except ValueError:
        return ""
    return address.replace("//0.0.0.0", "//127.0.0.1", 1).replace("//[::]", "//[::1]", 1).rstrip("/")
