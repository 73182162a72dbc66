"""A child process without a model: speaks the worker protocol and misbehaves on request."""

import argparse
import ctypes
import os
import signal
import socket
import time
from typing import Any

from ozzie_server_ext.planes.child import become_child
from ozzie_server_ext.protocol.ndjson import LineDecoder, decode_line, encode_line

BEHAVIOURS = ("serve", "mute", "dead", "silent", "stubborn", "busy", "stuck", "stopped")


class Child:
    """Answers `generate` by the session's name; all messages are kept for whoever asks with `seen`. `load` has it claim
    a share of CPU in a heartbeat, and say so to a call that is open."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._seen: list[Any] = []

    def send(self, *messages: dict[str, Any]) -> None:
        self._end.sendall(b"".join(encode_line(message) for message in messages))

    def serve(self) -> None:
        decoder = LineDecoder()
        while data := self._end.recv(65536):
            for line in decoder.feed(data):
                message = decode_line(line)
                if isinstance(message, dict):
                    self._seen.append(message)
                    self.obey(message)

    def obey(self, message: dict[str, Any]) -> None:
        call_id, session = message.get("id"), message.get("session_id")
        match message["type"], session:
            case "generate", "echo":
                self.send(
                    {"type": "token", "id": call_id, "text": message["prompt"]},
                    {"type": "tokens", "texts": {call_id: "!", "nobody": "?"}},
                    {"type": "stop", "id": call_id},
                )
            case "generate", "seen":
                self.send({"type": "seen", "id": call_id, "messages": self._seen}, {"type": "stop", "id": call_id})
            case "generate", "flood":
                for _ in range(int(message["prompt"])):
                    self.send({"type": "token", "id": call_id, "text": "x" * 50_000})
                self.send({"type": "stop", "id": call_id})
            case "generate", "die":
                self.send({"type": "token", "id": call_id, "text": "last words"})
                os.kill(os.getpid(), signal.SIGKILL)
            case "generate", "long line":
                self._end.sendall(b"x" * (2 << 20))
            case "load", _:
                self.send(
                    {"type": "heartbeat", "cpu": message["cpu"]}, {"type": "token", "id": call_id, "text": "told"}
                )
            case "describe", _:
                self.describe(call_id, [name["model"] for name in message["models"]])
            case "abort", "obedient":
                self.send({"type": "stop", "id": call_id, "finish": "cancelled"})
            case _:
                return  # held open; an abort of it is ignored

    def describe(self, call_id: Any, models: list[str]) -> None:
        """Of each model as many tokens of context as descriptions were asked for, and its process as the longest
        answer; unless the first one's name says how to fail. Names tell what each can do, too."""
        asked = sum(message["type"] == "describe" for message in self._seen)
        facts = [
            {
                "context": asked,
                "max_output": os.getpid(),
                "tools": "toolless" not in name,
                "images": "seeing" in name or (False if "blind" in name else None),
            }
            for name in models
        ]
        match models[0]:
            case "silence":
                return
            case "too few":
                self.send({"ok": True, "id": call_id, "models": facts[1:]})
            case "nonsense":
                self.send({"ok": True, "id": call_id, "models": 7})
            case "death":
                os.kill(os.getpid(), signal.SIGKILL)
            case _:
                self.send({"ok": True, "id": call_id, "models": facts})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--behaviour", default="serve", choices=BEHAVIOURS)
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    args = parser.parse_args()
    become_child(args.parent, nice=0)
    child = Child(socket.socket(fileno=args.fd))
    match args.behaviour:
        case "dead":
            raise SystemExit(3)
        case "mute":
            time.sleep(600)
        case "silent":
            child.send({"type": "ready"})
            time.sleep(600)
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child.send({"type": "ready"})
            time.sleep(600)
        case "busy":
            child.send({"type": "ready"})
            while True:
                pass
        case "stuck":
            child.send({"type": "ready"})
            # A call into C that keeps the interpreter's lock: no Python runs here any more, not in any thread.
            ctypes.PyDLL(None).sleep(600)
        case "stopped":
            child.send({"type": "ready"})
            os.kill(os.getpid(), signal.SIGSTOP)
        case _:
            child.send({"type": "ready"})
            child.serve()


if __name__ == "__main__":
    main()
