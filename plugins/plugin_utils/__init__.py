"""What plugins share on the controller. They need the library of the same release, which this says before any of them fails by it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from ansible.errors import AnsibleError

VERSION = "0.1.0"
"""Of this collection."""


def _must_have_library() -> None:
    try:
        there = version("gpusmith")
    except PackageNotFoundError:
        there = ""
    if there != VERSION:
        has = f"has version {there} of it" if there else "does not have it"
        raise AnsibleError(
            f"Collection gpusmith.gpu {VERSION} needs Python package 'gpusmith' of the same version, and the Python that runs Ansible"
            f" {has}. Install it: python3 -m pip install gpusmith=={VERSION}"
        )


_must_have_library()
