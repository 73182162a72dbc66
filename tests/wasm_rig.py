"""Plugins for tests, written as WebAssembly's text and made into code by wasmtime."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import wasmtime

_MODULE = """(module
 (import "extism:host/env" "input_length" (func $input_length (result i64)))
 (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
 (import "extism:host/env" "output_set" (func $output (param i64 i64)))
 (import "extism:host/env" "error_set" (func $error (param i64)))
 (import "extism:host/env" "length" (func $length (param i64) (result i64)))
 (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
 (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
 (import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
 (import "extism:host/user" "kv_get" (func $kv_get (param i64) (result i64)))
 (import "extism:host/user" "kv_set" (func $kv_set (param i64 i64) (result i64)))
 (import "extism:host/user" "log" (func $log (param i64 i64) (result i64)))
 (import "extism:host/user" "get_secret" (func $get_secret (param i64) (result i64)))
 (import "extism:host/user" "get_env" (func $get_env (param i64) (result i64)))
 (import "extism:host/user" "get_config" (func $get_config (param i64) (result i64)))
 (import "extism:host/user" "http_request" (func $http_request (param i64 i64 i64) (result i64)))
 (import "extism:host/user" "http_send" (func $http_send (param i64) (result i64)))
 (import "extism:host/user" "file_read" (func $file_read (param i64) (result i64)))
 (import "extism:host/user" "file_write" (func $file_write (param i64 i64) (result i64)))
 (memory (export "memory") 64)
 (global $kept (mut i32) (i32.const 0))
%(data)s
 (func $text (param $at i32) (param $size i32) (result i64)
   (local $block i64) (local $i i32)
   (local.set $block (call $alloc (i64.extend_i32_u (local.get $size))))
   (block $end (loop $next
     (br_if $end (i32.ge_u (local.get $i) (local.get $size)))
     (call $store_u8 (i64.add (local.get $block) (i64.extend_i32_u (local.get $i)))
       (i32.load8_u (i32.add (local.get $at) (local.get $i))))
     (local.set $i (i32.add (local.get $i) (i32.const 1)))
     (br $next)))
   (local.get $block))
 (func $give (param $block i64) (result i32)
   (call $output (local.get $block) (call $length (local.get $block)))
   (i32.const 0))
%(functions)s
)"""


class Wat:
    """WebAssembly under construction: exports by name, and the texts that they use."""

    def __init__(self) -> None:
        self._texts: dict[bytes, int] = {}
        self._functions: list[str] = []
        self._end = 0

    def text(self, text: str | bytes) -> str:
        """Return an expression for a text in Extism's memory."""
        content = text.encode() if isinstance(text, str) else text
        if content not in self._texts:
            self._texts[content] = self._end
            self._end += len(content) + 1
        return f"(call $text (i32.const {self._texts[content]}) (i32.const {len(content)}))"

    def asks(self, name: str, function: str, *texts: str) -> "Wat":
        """Export a function that returns the host's answer to one call."""
        given = " ".join(map(self.text, texts))
        return self.does(name, f"(call $give (call ${function} {given}))")

    def returns(self, name: str, answer: str | bytes) -> "Wat":
        """Export a function that returns this text."""
        return self.does(name, f"(call $give {self.text(answer)})")

    def does(self, name: str, body: str) -> "Wat":
        """Export a function with this body, which leaves 0 or an error's number."""
        self._functions.append(f'(func (export "{name}") (result i32) (local $block i64) (local $i i32) {body})')
        return self

    @property
    def code(self) -> bytes:
        data = "\n".join(f' (data (i32.const {at}) "{_escaped(text)}")' for text, at in self._texts.items())
        return made(_MODULE % {"data": data, "functions": "\n".join(self._functions)})


@cache
def made(text: str) -> bytes:
    """Return the code of a module's text."""
    return bytes(wasmtime.wat2wasm(text))


def _escaped(content: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in content)


def plugin_folder(folder: Path, code: bytes, **manifest: Any) -> Path:
    """Make a plugin in a new folder; `manifest` has at least its name."""
    folder.mkdir(parents=True)
    (folder / "manifest.jsonc").write_text(json.dumps(manifest, indent=1))
    (folder / f"{manifest['name']}.wasm").write_bytes(code)
    return folder
