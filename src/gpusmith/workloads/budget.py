"""How many GPUs a run may take at the same time: nodes wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from gpusmith.errors import InputError, ToolError

LOOK_S = 0.5
N = TypeVar("N")
R = TypeVar("R")


def budget_of(text: str | None, gpus: int) -> int:
    """The value of --gpu-budget in GPUs; 0 for no limit.

    Args:
        text: a number, or a percentage of all GPUs of the run; None if it is not given.
        gpus: of all nodes of the run.

    Raises:
        InputError: it is neither.
    """
    if text is None:
        return 0
    number, percent, rest = text.partition("%")
    if not number.isdigit() or rest or not int(number) or (percent and int(number) > 100):
        raise InputError(
            f"'{text}' of option '--gpu-budget' is no number of GPUs, and no percentage of them.",
            "Give for example 16, or 10%.",
        )
    return max(1, gpus * int(number) // 100) if percent else int(number)


class Budget:
    """Works on nodes at the same time, as long as all of them together have no more GPUs.

    Args:
        pool: does the work.
        gpus: that may be in work at once; 0 for no limit.
        stopped: whether the run ends now.
    """

    def __init__(self, pool: ThreadPoolExecutor, gpus: int, stopped: Callable[[], bool]) -> None:
        self._pool, self._gpus, self._stopped = pool, gpus, stopped
        self._taken = 0
        self._freed = threading.Condition()

    def map(self, work: Callable[[N], R], rows: Iterable[N]) -> Iterator[R]:
        """Work on each row, which is a node or several, as soon as there is room for all its GPUs."""
        return self._pool.map(partial(self._within, work) if self._gpus else work, rows)

    def _within(self, work: Callable[[N], R], row: N) -> R:
        nodes: Sequence[Any] = row if isinstance(row, Sequence) else [row]
        gpus = sum(node.target.gpus for node in nodes)
        with self._freed:
            # A pair by which a node is found that is to blame may have more than the budget: it comes alone.
            while self._taken and self._taken + gpus > self._gpus:
                if self._stopped():
                    raise ToolError("The run ends.")
                self._freed.wait(LOOK_S)
            self._taken += gpus
        try:
            return work(row)
        finally:
            with self._freed:
                self._taken -= gpus
                self._freed.notify_all()
