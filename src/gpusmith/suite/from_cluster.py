"""Options of a run without an inventory: which go together, and the nodes that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpusmith.cluster import kubeconfig
from gpusmith.errors import InputError
from gpusmith.report.results import ExitCode
from gpusmith.suite import maintenance
from gpusmith.suite.run import Suite
from gpusmith.wanted import expect_file, from_cluster
from gpusmith.wanted.inventory import Inventory

PRIVILEGED = "privileged"
FACTS = ("none", PRIVILEGED)
OPTIONS = (
    ("--kubeconfig", "FILE", "default: $KUBECONFIG, ~/.kube/config, the pod's service account"),
    ("--context", "NAME", "of the kubeconfig"),
    ("--selector", "LABELS", "only nodes with these labels, as of kubectl"),
    ("--record", "FILE", "write what the nodes have into a file, if all checks pass"),
    ("--expect", "FILE", "compare them with what --record wrote"),
    ("--namespace", "NAME", "run workloads, too, in this namespace, which is there and stays"),
    ("--images", "LIST", "of the workloads: cuda=REF,pytorch=REF,tensorflow=REF, or one for all"),
    (
        "--facts",
        "KIND",
        f"of the machines: {', '.join(FACTS)}, by a pod of that kind on each node (default: none)",
    ),
    ("--tolerate", "KEYS", "of taints behind which workloads run, beside those that all GPU nodes have"),
)
"""Each with its value and its help."""
OWN = tuple(option for option, _, _ in OPTIONS)
OF_INVENTORY = ("--inventory", "--limit", maintenance.ID, maintenance.VERSION, maintenance.LAYOUT)
ALL = (*OWN, *OF_INVENTORY)

IMAGES = ("cuda", "pytorch", "tensorflow")

Given = Mapping[str, str | None]


def tiers(given: Given) -> tuple[str, ...]:
    """Those that can be had."""
    if not given["--namespace"]:
        return ("cluster",)
    return ("nodes", "cluster", "workloads") if given["--facts"] == PRIVILEGED else ("cluster", "workloads")


def refuse(given: Given, from_cluster: bool) -> None:
    """Options that do not go together.

    Args:
        given: values by option.
        from_cluster: whether --from-cluster is given.

    Raises:
        InputError: they are given.
    """
    kind = given["--facts"]
    if kind not in (None, *FACTS):
        raise InputError(f"'{kind}' of option '--facts' is none of {', '.join(FACTS)}.", "Give one of them.")
    if kind == PRIVILEGED and from_cluster and not given["--namespace"]:
        raise InputError(
            "Option '--facts privileged' needs '--namespace', for its pods, and '--images'.",
            "Name a namespace that is there, and in which nobody else works.",
        )
    wrong = [option for option in (OF_INVENTORY if from_cluster else OWN) if given[option] is not None]
    if not wrong:
        return
    if from_cluster:
        raise InputError(
            f"Option '{wrong[0]}' needs an inventory, and '--from-cluster' has none.",
            "Give one of the two. Nodes of a cluster are chosen with --selector.",
        )
    raise InputError(
        f"Option '{wrong[0]}' needs '--from-cluster'.", "Give both; an inventory names its kubeconfig itself."
    )


def asked(given: Given, here: Path) -> Inventory:
    """The nodes.

    Args:
        given: values by option.
        here: relative paths start there.

    Raises:
        InputError: there are none, or no way to the cluster.
        ToolError: the cluster does not answer or refuses.
    """
    access = kubeconfig.found(given["--kubeconfig"] or "", given["--context"] or "")
    within = given["--namespace"] or ""
    images = images_of(given["--images"] or "")
    if within and "cuda" not in images:
        raise InputError(
            "Workloads need '--images', for one that has Python 3 at least.",
            "Give for example --images cuda=REGISTRY/pytorch:TAG; what has no image is not applicable.",
        )
    tolerated = [key for key in (given["--tolerate"] or "").split(",") if key]
    expect = given["--expect"]
    found = from_cluster.read(
        access, given["--selector"] or "", here / Path(expect).expanduser() if expect else None
    )
    return replace(
        found,
        within=within,
        by_pods=given["--facts"] == PRIVILEGED,
        hosts={
            name: replace(
                host,
                validation=replace(host.validation, images=images),
                kubernetes=replace(
                    host.kubernetes, taints=(*host.kubernetes.taints, *({"key": key} for key in tolerated))
                ),
            )
            for name, host in found.hosts.items()
        },
    )


def images_of(text: str) -> dict[str, str]:
    """The value of --images.

    Raises:
        InputError: a name that there is not.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) == 1 and "=" not in parts[0]:
        return dict.fromkeys(IMAGES, parts[0])
    rows = dict(part.partition("=")[::2] for part in parts)
    wrong = [name for name, image in rows.items() if name not in IMAGES or not image]
    if wrong:
        raise InputError(
            f"'{wrong[0]}' of option '--images' is none of {', '.join(IMAGES)} with an image.",
            "Write --images cuda=REF,pytorch=REF,tensorflow=REF.",
        )
    return rows


def record(suite: Suite, path: Path, code: int) -> None:
    """Write what the nodes have, of a run in which nothing failed.

    Raises:
        ToolError: it cannot be written.
    """
    if code != ExitCode.PASSED:
        suite.say(
            f"nothing is recorded in '{path}': only a cluster that passes is what others are compared with"
        )
        return
    expect_file.record(path, suite.sources.cluster_state.snapshot.nodes.values())
    suite.say(f"recorded in '{path}'; compare with it by --expect")
