"""What Prometheus and Alertmanager answered, and what checks of the monitoring tier get of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpusmith.cluster.views import NodeView
from gpusmith.names import EXPORTER
from gpusmith.probe.record import Record
from gpusmith.wanted.node import Monitoring, NodeWanted
from gpusmith.wanted.offers import Offers, gpus_of

Series = Mapping[str, Any]
"""Of an instant query: labels as 'metric', value as 'value'."""
Held = Mapping[str, Mapping[str, int]]
"""Numbers of GPUs by 'namespace/pod', by Node."""


@dataclass(frozen=True)
class Delivery:
    """What Alertmanager answered.

    Attributes:
        trouble: why it did not; empty if it did.
        watchdog: receivers of the alert that always fires; None if it has not arrived.
        receivers: by name, what each of them sends messages by, such as 'webhook_configs'.
    """

    trouble: str = ""
    watchdog: Sequence[str] | None = None
    receivers: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Answers:
    """What Prometheus answered, one query for each fact of the whole cluster.

    Attributes:
        trouble: why it did not; empty if it did.
        reloaded: whether its last configuration could be loaded.
        rules: those of gpusmith that are loaded, with what is wrong with each; empty if nothing is.
        alerts: those of gpusmith that fire, 'kept' where only their rule's keep_firing_for lets them.
        up: whether the last scrape of each exporter, and of kube-state-metrics, worked.
        ages: seconds since the last scrape of each exporter.
        gpus: number of counters by GPU, and by the pod that has it.
        gpus_later: the same, so much later that no value is from before the first ones; empty if nothing was doubtful.
        held_later: what pods held then.
        models: how many GPUs of a model have a counter.
        lacking: counters of GPUs that have fewer than others of their model.
        alertmanagers: addresses that alerts are sent to.
        delivery: what Alertmanager answered; None if it was not asked.
    """

    trouble: str = ""
    reloaded: bool = True
    rules: Mapping[str, str] = field(default_factory=dict)
    alerts: tuple[Mapping[str, Any], ...] = ()
    up: tuple[Mapping[str, Any], ...] = ()
    ages: tuple[Mapping[str, Any], ...] = ()
    gpus: tuple[Mapping[str, Any], ...] = ()
    gpus_later: tuple[Mapping[str, Any], ...] = ()
    held_later: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    models: tuple[Mapping[str, Any], ...] = ()
    lacking: tuple[Mapping[str, Any], ...] = ()
    alertmanagers: tuple[str, ...] = ()
    delivery: Delivery | None = None

    @cached_property
    def scraped(self) -> Mapping[str, bool]:
        """Whether exporters answer, by Node; those that Prometheus does not know are left out."""
        return {
            row["metric"].get("node", ""): number(row) == 1
            for row in self.up
            if row["metric"].get("job") == EXPORTER
        }

    @cached_property
    def age(self) -> Mapping[str, float]:
        """Seconds since the last scrape, by Node."""
        return {row["metric"].get("node", ""): number(row) for row in self.ages}

    @cached_property
    def by_node(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Rows of `gpus` by Node."""
        return _by_node(self.gpus)

    @cached_property
    def later_by_node(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Rows of `gpus_later` by Node."""
        return _by_node(self.gpus_later)

    @cached_property
    def of_model(self) -> Mapping[str, frozenset[str]]:
        """Counters that any GPU has, by model."""
        found: dict[str, set[str]] = {}
        for row in self.models:
            found.setdefault(row["metric"].get("modelName", ""), set()).add(row["metric"]["__name__"])
        return {model: frozenset(names) for model, names in found.items()}


@dataclass(frozen=True)
class Watched:
    """What a check of the whole gets.

    Attributes:
        wanted: of the inventory.
        answers: what was answered.
    """

    wanted: Monitoring
    answers: Answers


@dataclass(frozen=True)
class WatchedNode:
    """What a check of a node gets.

    Attributes:
        host: what the inventory says.
        node_name: of the Node object.
        view: the Node object; None if the cluster has none.
        record: what the node's probe saw; None if it was not asked, or did not answer.
        answers: what was answered, of all nodes.
    """

    host: NodeWanted
    node_name: str
    view: NodeView | None
    record: Record | None
    answers: Answers

    @property
    def uuids(self) -> list[str]:
        """GPUs that the metrics have of it."""
        return list(
            dict.fromkeys(row["metric"]["UUID"] for row in self.answers.by_node.get(self.node_name, ()))
        )


def number(row: Series) -> float:
    """Its value."""
    return float(row["value"][1])


def _by_node(rows: Iterable[Series]) -> dict[str, list[Series]]:
    found: dict[str, list[Series]] = {}
    for row in rows:
        found.setdefault(row["metric"].get("node", ""), []).append(row)
    return found


def shared_out(view: NodeView, gpus: int) -> str:
    """How a node has pods share GPUs, in words: then metrics do not tell who uses one. Empty if it does not."""
    return f"hands out {view.layout.words}" if view.layout.shared else view.divided(view.offers(gpus))


def held_on(view: NodeView, offers: Offers) -> dict[str, int]:
    """GPUs of the device plugin that pods hold; of claims the exporter knows nothing."""
    counted = {holder.title: gpus_of(holder.counts, offers) for holder in view.holders}
    return {title: count for title, count in counted.items() if count}


def attributed(rows: Iterable[Series]) -> dict[str, set[str]]:
    """UUIDs by the pod that has them, by the metrics of a node."""
    found: dict[str, set[str]] = {}
    for labels in (row["metric"] for row in rows):
        if labels.get("pod"):
            found.setdefault(f"{labels.get('namespace', '')}/{labels['pod']}", set()).add(labels["UUID"])
    return found


def differing(held: Mapping[str, int], rows: Iterable[Series]) -> dict[str, tuple[int, int]]:
    """Pods of a node that hold another number of GPUs than metrics say, with both numbers."""
    seen = attributed(rows)
    counts = {title: (held.get(title, 0), len(seen.get(title, ()))) for title in (*held, *seen)}
    return {title: both for title, both in counts.items() if both[0] != both[1]}


def fewer(answers: Answers, rows: Iterable[Series]) -> list[Series]:
    """GPUs with fewer counters than others of their model, each once."""
    found = {
        row["metric"]["UUID"]: row
        for row in rows
        if number(row) < len(answers.of_model.get(row["metric"].get("modelName", ""), ()))
    }
    return list(found.values())
