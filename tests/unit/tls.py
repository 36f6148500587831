"""Servers that speak TLS, for tests."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.authorities import Pair

LOCAL = "127.0.0.1"


@contextmanager
def server(pair: Pair, folder: Path, body: str = "") -> Iterator[int]:
    """The port of a server with a certificate, which answers whatever it is asked with a body, if it has one."""
    file = folder / "server.pem"
    file.write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with socket.create_server((LOCAL, 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _unused = listener.accept()
                except OSError:
                    return
                with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                    if body and secured.recv(4096):
                        secured.sendall(f"HTTP/1.0 200 OK\r\n\r\n{body}".encode())

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            # Its number may be another server's once it is closed: a thread that still accepts would answer in that one's place.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
