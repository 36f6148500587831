"""Servers that speak TLS, for tests."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.authorities import Pair

LOCAL = "127.0.0.1"


@contextmanager
def server(pair: Pair, folder: Path) -> Iterator[int]:
    """The port of a server that takes one connection, with a certificate."""
    file = folder / "server.pem"
    file.write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with socket.create_server((LOCAL, 0)) as listener:

        def answer() -> None:
            try:
                connection, _unused = listener.accept()
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                return

        threading.Thread(target=answer, daemon=True).start()
        yield listener.getsockname()[1]
