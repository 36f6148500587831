"""How the simulated kernel says no."""

from __future__ import annotations

import os


class RefusedError(Exception):
    """The simulated kernel says no.

    Attributes:
        code: the errno, which is the exit status of the program too.
    """

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(text or os.strerror(code))
        self.code = code
