"""Certificates and keys of a kubeconfig as files that are in memory only.

The client of Kubernetes and OpenSSL take certificates and keys by path. What a kubeconfig or a credential plugin has inline, the
client writes to the temporary folder and removes when its process exits, which Ansible's workers and killed processes never do. A
file of memfd_create has a path, is in no folder, and goes with the last process that has it open.
"""

from __future__ import annotations

import os
import sys
import threading

from gpusmith.errors import ToolError

WRITER = "_create_temp_file_with_content"
"""The client writes all of them by this function."""
_paths: dict[bytes, str] = {}
_lock = threading.Lock()


def use() -> None:
    """Have the client of Kubernetes keep them in memory.

    Raises:
        ToolError: this release of the client writes them in another way.
    """
    # Other systems than Linux have no memfd_create: the client's own files stay.
    if sys.platform != "linux":
        return
    from kubernetes.config import kube_config

    if not callable(getattr(kube_config, WRITER, None)):
        raise ToolError(
            "This release of the Python package 'kubernetes' would leave private keys in the temporary folder.",
            "Run 'make setup', which installs the release that gpusmith was tried with.",
        )
    setattr(kube_config, WRITER, path_of)


def path_of(
    content: str | bytes,
    temp_file_path: str | None = None,  # noqa: ARG001 - there is no folder
    force_recreate: bool = False,  # noqa: ARG001 - nobody can have removed it
) -> str:
    """The path of a file with this content, the same one for the same content; for this process and those that it forks."""
    data = content.encode() if isinstance(content, str) else content
    with _lock:
        if data not in _paths:
            _paths[data] = _new(data)
        return _paths[data]


def _new(data: bytes) -> str:
    # Not inherited by programs that are started, such as credential plugins.
    number = os.memfd_create("gpusmith-kubeconfig", os.MFD_CLOEXEC)
    with os.fdopen(number, "wb", closefd=False) as file:
        file.write(data)
    return f"/proc/self/fd/{number}"
