"""How GPUs are shared, by the inventory: what cannot work, before a machine is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpusmith.data.operands import EXISTING
from gpusmith.errors import Refusal
from gpusmith.inventory.target import on_hosts
from gpusmith.names import LAYOUT_LABEL
from gpusmith.wanted.layouts import NONE
from gpusmith.wording import quoted

SHARING, SHARES, RESOURCE = "gpusmith_gpu_sharing", "gpusmith_gpu_shares", "gpusmith_gpu_share_resource"
PLUGIN, LABELS = "gpu_operands_device_plugin", "kubernetes_node_labels"

Values = Mapping[str, Any]


def check_sharing(nodes: Mapping[str, Values], extra: Values) -> list[Refusal]:
    """Refuse shares that nobody would make, or that the next run would find wrong.

    Args:
        nodes: variables by name, by node of the run.
        extra: those of -e.
    """
    given = [name for name in (SHARING, SHARES, RESOURCE) if name in extra]
    if given:
        lasting = "How GPUs are handed out must outlast the run: the validation, and the next run, ask the inventory."
        return [Refusal(f"{quoted(given)} cannot be given with -e. {lasting}", "Put it into the inventory.")]
    found = (
        (refusal, [node for node, values in nodes.items() if is_so(values)]) for refusal, is_so in REFUSALS
    )
    return [on_hosts(refusal, there) for refusal, there in found if there]


def _shared(values: Values) -> bool:
    return values.get(SHARING) not in (None, NONE)


def _of_others(values: Values) -> bool:
    return _shared(values) and values.get(PLUGIN) == EXISTING


def _unsaid(values: Values) -> bool:
    return SHARING not in values and any(values.get(name) is not None for name in (SHARES, RESOURCE))


def _by_hand(values: Values) -> bool:
    labels = values.get(LABELS)
    return isinstance(labels, Mapping) and LAYOUT_LABEL in labels


REFUSALS: tuple[tuple[Refusal, Callable[[Values], bool]], ...] = (
    (
        Refusal(
            f"'{SHARING}' is set, and '{PLUGIN}' is '{EXISTING}': that plugin's owner decides how it divides GPUs.",
            f"Set '{PLUGIN}: managed', or configure the sharing where the plugin is, and take '{SHARING}' out.",
        ),
        _of_others,
    ),
    (
        Refusal(
            f"'{SHARES}' or '{RESOURCE}' is set, but '{SHARING}' is not: GPUs would be handed out whole.",
            f"Set '{SHARING}', to '{NONE}' where GPUs stay whole.",
        ),
        _unsaid,
    ),
    (
        Refusal(
            f"'{LABELS}' has label '{LAYOUT_LABEL}', which site.yml sets, and only where no pod holds a GPU.",
            f"Take it out, and set '{SHARING}'.",
        ),
        _by_hand,
    ),
)
