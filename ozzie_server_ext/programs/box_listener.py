"""Inside a server's sandbox: hands a socket that listens at the proxy's port out of it, and becomes the server.

`python -I box_listener.py FD PORT COMMAND ARG…`. It is given to the sandbox as a text, so it imports nothing of ours.
The socket stays in the sandbox's own network, where the server finds it; who accepts its connections is outside.
"""

import os
import socket
import sys


def main() -> None:
    number, port, *command = sys.argv[1:]
    with socket.socket(fileno=int(number)) as channel, socket.create_server(("127.0.0.1", int(port))) as listening:
        socket.send_fds(channel, [b"!"], [listening.fileno()])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
