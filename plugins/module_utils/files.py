"""Text files that modules read and write. Others may have comments there in any encoding: what is not UTF-8 stays as it is."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import contextlib
import stat
from pathlib import Path
from typing import Optional, Union

AS_IT_IS = "surrogateescape"
"""How Python reads bytes that are not UTF-8, and writes the same bytes again."""


def put(path: Path, text: Union[str, bytes, None], mode: Optional[int] = None) -> None:
    """Replace a file at once, or remove it.

    Args:
        path: of the file; folders are made.
        text: its content; None to remove it.
        mode: None for the mode that it has, or 0644.

    Raises:
        OSError: such as of a full disk, with the file's name; it is as it was.
    """
    if text is None:
        if path.exists():
            path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name("." + path.name + ".new")
    try:
        # The content may be secret until the file has its mode.
        temporary.touch(mode=0o600)
        temporary.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", AS_IT_IS))
        if mode is None:
            mode = mode_of(path) or 0o644
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error


def read(path: Path) -> Optional[str]:
    """A file's content; None if there is none."""
    return path.read_text(encoding="utf-8", errors=AS_IT_IS) if path.exists() else None


def shown(text: str) -> str:
    """A text as a result may have it: Ansible refuses one with anything else than UTF-8."""
    return text.encode("utf-8", AS_IT_IS).decode("utf-8", "replace")


def mode_of(path: Path) -> Optional[int]:
    """A file's permissions; None if there is none."""
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None
