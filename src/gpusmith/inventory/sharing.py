"""How GPUs are shared, by the inventory: what cannot work, before a machine is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpusmith.data import models
from gpusmith.data.operands import EXISTING
from gpusmith.errors import InputError, Refusal
from gpusmith.inventory.gpu_models import VARIABLE as MODELS
from gpusmith.inventory.machines import MODEL
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import has_open
from gpusmith.inventory.values import whole
from gpusmith.names import LAYOUT_LABEL
from gpusmith.wanted.layouts import DRA, MIG, MPS, NONE, by_mig
from gpusmith.wording import quoted

SHARING, SHARES, RESOURCE = "gpusmith_gpu_sharing", "gpusmith_gpu_shares", "gpusmith_gpu_share_resource"
PROFILE = "gpusmith_gpu_mig_profile"
PLUGIN, LABELS = "gpu_operands_device_plugin", "kubernetes_node_labels"
BEFORE_VOLTA = frozenset({"maxwell", "pascal"})
"""Architectures whose MPS limits no client and isolates no memory (NVIDIA, "Multi-Process Service", "Volta MPS")."""
MOST_BEFORE_TURING = 16
"""Shares of such a GPU by MPS: the device plugin's daemon asks for compute capability 7.5 for more (0.19.0, device.go)."""

Values = Mapping[str, Any]


def check_sharing(nodes: Mapping[str, Values], extra: Values) -> list[Refusal]:
    """Refuse shares that nobody would make, or that the next run would find wrong.

    Args:
        nodes: variables by name, by node of the run.
        extra: those of -e.
    """
    given = [name for name in (SHARING, SHARES, RESOURCE, PROFILE) if name in extra]
    if given:
        lasting = "How GPUs are handed out must outlast the run: the validation, and the next run, ask the inventory."
        return [Refusal(f"{quoted(given)} cannot be given with -e. {lasting}", "Put it into the inventory.")]
    found = (
        (refusal, [node for node, values in nodes.items() if is_so(values)]) for refusal, is_so in REFUSALS
    )
    of_model = {
        node: refusal
        for node, values in nodes.items()
        if (refusal := _not_by_mig(values) or _not_by_mps(values))
    }
    return [
        *(on_hosts(refusal, there) for refusal, there in found if there),
        *(
            on_hosts(refusal, [node for node, its in of_model.items() if its == refusal])
            for refusal in dict.fromkeys(of_model.values())
        ),
    ]


def _not_by_mig(values: Values) -> Refusal | None:
    """Why GPUs cannot be divided by MIG as it is asked for; None if they can, or it is not."""
    if values.get(SHARING) != MIG:
        return None
    model, profile, own = (values.get(name) for name in (MODEL, PROFILE, MODELS))
    if not model:
        return Refusal(
            f"'{SHARING}' is '{MIG}', and '{MODEL}' is not set: what instances GPUs can have goes by their model.",
            f"Set '{MODEL}', a row of data/gpus.yml.",
        )
    if not profile:
        return Refusal(
            f"'{SHARING}' is '{MIG}', and '{PROFILE}' is not set.", f"Set it, such as '{PROFILE}: 3g.40gb'."
        )
    if not isinstance(model, str) or not isinstance(profile, str):
        return None  # refused for its type
    if has_open(model) or has_open(profile) or has_open(own):
        return None  # a template: the play looks at it again
    try:
        by_mig(profile, model, own if isinstance(own, Mapping) else {})
    except InputError as error:
        return Refusal(f"'{PROFILE}': {error.message}", error.hint)
    return None


def _not_by_mps(values: Values) -> Refusal | None:
    """Why GPUs cannot be shared by MPS as it is asked for, if their model tells; None if they can, or it is not."""
    model, own = values.get(MODEL), values.get(MODELS)
    if values.get(SHARING) != MPS or not isinstance(model, str) or has_open(model) or has_open(own):
        return None
    row = models.joined(models.load(), own if isinstance(own, Mapping) else {}, model).get(model)
    if row is None:
        return None
    if row.architecture in BEFORE_VOLTA:
        return Refusal(
            f"'{SHARING}' is '{MPS}', and '{model}' is a GPU before Volta, whose MPS neither limits pods nor isolates them.",
            f"Set '{SHARING}: time-slicing'.",
        )
    if row.architecture == "volta" and (whole(values.get(SHARES)) or 0) > MOST_BEFORE_TURING:
        return Refusal(
            f"'{SHARES}' is {values[SHARES]}, and by MPS '{model}' can have {MOST_BEFORE_TURING}: the device plugin's control"
            " daemon takes no more of GPUs before Turing.",
            f"Set '{SHARES}' to {MOST_BEFORE_TURING} or less.",
        )
    return None


def _shared(values: Values) -> bool:
    return values.get(SHARING) not in (None, NONE)


def _of_others(values: Values) -> bool:
    return _shared(values) and values.get(PLUGIN) == EXISTING


def _unsaid(values: Values) -> bool:
    return SHARING not in values and any(values.get(name) is not None for name in (SHARES, RESOURCE, PROFILE))


def _both(values: Values) -> bool:
    return values.get(SHARING) == MPS and bool(values.get(PROFILE))


def _parted(values: Values) -> bool:
    return values.get(SHARING) == DRA and any(
        values.get(name) is not None for name in (SHARES, RESOURCE, PROFILE)
    )


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
            f"'{SHARES}', '{RESOURCE}' or '{PROFILE}' is set, but '{SHARING}' is not: GPUs would be handed out whole.",
            f"Set '{SHARING}', to '{NONE}' where GPUs stay whole.",
        ),
        _unsaid,
    ),
    (
        Refusal(
            f"'{SHARING}' is '{MPS}', and '{PROFILE}' is set: the device plugin does not share MIG instances by MPS.",
            f"Take '{PROFILE}' out, or set '{SHARING}: {MIG}'.",
        ),
        _both,
    ),
    (
        Refusal(
            f"'{SHARING}' is '{DRA}', which hands out whole GPUs, and '{SHARES}', '{RESOURCE}' or '{PROFILE}' is set.",
            "Take these out where GPUs are handed out by claims.",
        ),
        _parted,
    ),
    (
        Refusal(
            f"'{LABELS}' has label '{LAYOUT_LABEL}', which site.yml sets, and only where no pod holds a GPU.",
            f"Take it out, and set '{SHARING}'.",
        ),
        _by_hand,
    ),
)
