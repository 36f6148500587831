"""Why GPUs could not be made as they are wanted."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations


class PartitionError(Exception):
    """What stands in the way, and what a person can do.

    Attributes:
        message: one sentence.
        hint: the next step.
        in_use: whether somebody uses the GPU, so that it may be tried again.
    """

    def __init__(self, message: str, hint: str, in_use: bool = False) -> None:
        super().__init__(message)
        self.message, self.hint, self.in_use = message, hint, in_use
