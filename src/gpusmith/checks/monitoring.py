"""Checks of the monitoring tier: what watches the nodes knows all of their GPUs, and what it finds reaches somebody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.checks.watched import (
    Answers,
    Watched,
    WatchedNode,
    attributed,
    differing,
    fewer,
    held_on,
    number,
    shared_out,
)
from gpusmith.cluster.views import NodeView
from gpusmith.data import monitoring
from gpusmith.data.monitoring import NONE, WATCHDOG
from gpusmith.data.operands import EXISTING, MANAGED
from gpusmith.names import EXPORTER, OPERANDS_LABEL, OPERANDS_PAUSED, STATE_METRICS
from gpusmith.problems import Problem
from gpusmith.wording import quoted, shorten

ENGINE, UTIL = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
ECC, REMAPS = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_FAILURE"
"""Counters that not every GPU has: those of data centres, without MIG, with ECC, those that remap rows."""
OLD_AFTER = 3
"""Intervals after which a scrape is an old one."""
OLD_AFTER_S = 90
"""But not before: an interval that was made shorter is not in force at once."""


def need_answers(answers: Answers) -> None:
    """Prometheus answered."""
    if answers.trouble:
        raise CannotAsk("Prometheus cannot be asked; see monitoring.prometheus.")


def _need_exporter(facts: WatchedNode) -> None:
    """The node has one that should serve."""
    need_answers(facts.answers)
    if facts.host.monitoring.dcgm_exporter == NONE:
        raise NotApplicable("Not applicable: 'gpu_monitoring_dcgm_exporter' is 'none'.")
    if facts.view and facts.view.labels.get(OPERANDS_LABEL) == OPERANDS_PAUSED:
        raise NotApplicable(f"Node '{facts.node_name}': an upgrade has taken the operands off the node.")


def _need_values(facts: WatchedNode) -> None:
    _need_exporter(facts)
    if not facts.answers.scraped.get(facts.node_name):
        raise CannotAsk(f"No values of node '{facts.node_name}' arrive; see monitoring.targets.")


@check(
    "monitoring.prometheus",
    place=10,
    proves="Prometheus answers, runs with its last configuration, evaluates all rules of gpusmith and scrapes kube-state-metrics",
    fails_when=(
        "it does not answer, its last configuration could not be loaded, a rule is missing or in error, or kube-state-metrics"
        " is not up"
    ),
    do="run site.yml; read the logs of Prometheus and of kube-state-metrics",
    per_node=False,
    evidence=lambda facts: {"rules": len(facts.answers.rules)},
)
def prometheus(facts: Watched) -> list[Problem]:
    """It answers, and works as it is meant to."""
    wanted, answers = facts.wanted, facts.answers
    ours = wanted.prometheus == MANAGED
    look = f"kubectl -n {wanted.namespace} get pods -o wide"
    if answers.trouble:
        step = f"Look at: {look}" if ours else "Correct 'gpu_monitoring_prometheus_url', or start it."
        return [Problem(f"Prometheus does not answer: {answers.trouble}", step)]
    problems = []
    if not answers.reloaded:
        problems.append(
            Problem(
                "Prometheus could not load its last configuration, and goes on with the one before.",
                f"Read its log: kubectl -n {wanted.namespace} logs deployment/prometheus"
                if ours
                else "Read its log.",
            )
        )
    missing = sorted(monitoring.rules(wanted.disabled_alerts, wanted.jobs) - answers.rules.keys())
    if missing:
        problems.append(
            Problem(
                f"Prometheus has not loaded {len(missing)} of gpusmith's rules: {shorten(missing)}.",
                "Run site.yml. If that changes nothing, look which rules Prometheus selects.",
                {"missing": missing},
            )
        )
    problems += [
        Problem(f"Rule '{name}' cannot be evaluated: {error}", "Correct what it reads, or report it.")
        for name, error in sorted(answers.rules.items())
        if error
    ]
    states = [number(row) for row in answers.up if row["metric"].get("job") == STATE_METRICS]
    if wanted.kube_state_metrics != NONE and 1 not in states:
        problems.append(
            Problem(
                f"Prometheus gets no values of kube-state-metrics (job '{STATE_METRICS}'), which most rules read.",
                f"Look at: {look}" if wanted.kube_state_metrics == MANAGED else "Ask its owner.",
            )
        )
    return problems


@check(
    "monitoring.targets",
    place=20,
    proves="Prometheus gets the values of the node's exporter",
    fails_when="it does not know the node's exporter, gets no answer from it, or got the last one more than three intervals ago",
    do="look at the exporter's pod on the node",
    explained_by=("nodes.reachable", "cluster.node-ready"),
    evidence=lambda facts: {"scraped_s_ago": facts.answers.age.get(facts.node_name)},
)
def targets(facts: WatchedNode) -> list[Problem]:
    """Its last scrape worked, and is a recent one."""
    _need_exporter(facts)
    node, answers = facts.node_name, facts.answers
    age, most = answers.age.get(node), max(OLD_AFTER * facts.host.monitoring.interval_s, OLD_AFTER_S)
    if node not in answers.scraped:
        said = f"Prometheus knows no exporter (job '{EXPORTER}') of node '{node}'."
    elif not answers.scraped[node]:
        said = f"The exporter of node '{node}' does not answer Prometheus."
    elif age is None or age > most:
        said = f"The last values of node '{node}' are {'unknown' if age is None else f'{age:.0f} s'} old, more than {most} s."
    else:
        return []
    where = facts.host.operands.namespace
    return [Problem(said, f"Look at its pod: kubectl -n {where} get pods -o wide")]


def _counters(facts: WatchedNode) -> dict[str, Any]:
    models = {row["metric"].get("modelName", "") for row in facts.answers.by_node.get(facts.node_name, ())}
    there = frozenset[str]().union(*(facts.answers.of_model.get(model, frozenset()) for model in models))
    return {
        "gpus": facts.uuids,
        "counters": len(there),
        "counters_of_none": sorted({*monitoring.counters()} - there),
    }


@check(
    "monitoring.gpus",
    place=30,
    proves="the metrics have every GPU of the node, with every counter that its model has anywhere in the cluster",
    fails_when=(
        "a GPU of the node is not in the metrics or the other way round, or lacks a counter of"
        " roles/gpu_monitoring/files/counters.csv that another GPU of its model has, or an exporter of somebody else gives no"
        " value of a counter that rules read and the GPU has"
    ),
    do="read the log of the exporter; restart its pod if GPUs came or went since it started",
    explained_by=("nodes.gpu-count",),
    evidence=_counters,
)
def gpus(facts: WatchedNode) -> list[Problem]:
    """All GPUs, with all values."""
    _need_values(facts)
    return [*_missing_gpus(facts), *_missing_counters(facts), *_unread(facts)]


def _missing_gpus(facts: WatchedNode) -> list[Problem]:
    node, told = facts.node_name, facts.uuids
    step = "Read the log of the exporter, then restart its pod on the node."
    if facts.record is None:
        count = facts.host.gpu_count
        # Those that the inventory leaves out are there for the exporter.
        if len(told) == count or (facts.host.gpus_ignored and len(told) > count):
            return []
        by = facts.host.counted_by
        return [Problem(f"Node '{node}': the metrics have {len(told)} GPUs, {by} says {count}.", step)]
    there = [gpu.uuid for gpu in facts.record.nvml.gpus if gpu.uuid]
    lost = [uuid for uuid in there if uuid not in told]
    more = [uuid for uuid in told if uuid not in there and not facts.host.gpus_ignored]
    return [
        *(
            [
                Problem(
                    f"Node '{node}': the metrics lack {len(lost)} of {len(there)} GPUs: {shorten(lost)}.",
                    step,
                )
            ]
            if lost
            else []
        ),
        *(
            [Problem(f"Node '{node}': the metrics have GPUs that it does not show: {shorten(more)}.", step)]
            if more
            else []
        ),
    ]


def _missing_counters(facts: WatchedNode) -> list[Problem]:
    problems = []
    have: dict[str, set[str]] = {}
    for row in facts.answers.lacking:
        have.setdefault(row["metric"]["UUID"], set()).add(row["metric"]["__name__"])
    for row in fewer(facts.answers, facts.answers.by_node.get(facts.node_name, ())):
        uuid, model = row["metric"]["UUID"], row["metric"].get("modelName", "")
        every = facts.answers.of_model.get(model, frozenset())
        # Of very many GPUs, only the first ones are asked for what they lack.
        names = f": {shorten(sorted(every - have[uuid]))}" if uuid in have else ""
        problems.append(
            Problem(
                f"Node '{facts.node_name}': GPU '{uuid}' lacks {len(every) - round(number(row))} of {len(every)} counters that"
                f" other GPUs of model '{model}' have{names}.",
                "Read the log of the exporter on the node: it names what it cannot read.",
            )
        )
    return problems


def _unread(facts: WatchedNode) -> list[Problem]:
    """Counters that rules read and an exporter of somebody else was not told to give."""
    if facts.host.monitoring.dcgm_exporter != EXISTING:
        return []
    names = sorted(monitoring.needed() & {*_counters(facts)["counters_of_none"]} - _of_none(facts))
    if not names:
        return []
    return [
        Problem(
            f"Node '{facts.node_name}': the exporter gives no value of {quoted(names)}, so alerts that read them never fire.",
            "Give its owner roles/gpu_monitoring/files/counters.csv; docs/monitoring.md has the GPU Operator's values for it.",
            {"missing": names},
        )
    ]


def _of_none(facts: WatchedNode) -> set[str]:
    """Of these counters, those that no GPU of the node has, as far as its record tells. They are evidence."""
    gpus = facts.record.nvml.gpus if facts.record else ()
    of_some = {
        ENGINE: False,
        UTIL: any(gpu.mig_mode != "enabled" for gpu in gpus),
        ECC: any(gpu.ecc_uncorrected is not None for gpu in gpus),
        REMAPS: any(gpu.remap_failed is not None for gpu in gpus),
    }
    return {name for name, there in of_some.items() if not there}


@check(
    "monitoring.attribution",
    place=40,
    proves="the metrics name the pods that hold the node's GPUs, as the API and the kubelet do",
    fails_when="a pod holds GPUs and the metrics say another number or other GPUs, also two intervals later",
    do="read the log of the exporter: it asks the kubelet's socket in /var/lib/kubelet/pod-resources",
    evidence=lambda facts: {
        "pods": {
            title: sorted(uuids)
            for title, uuids in attributed(facts.answers.by_node.get(facts.node_name, ())).items()
        }
    },
)
def attribution(facts: WatchedNode) -> list[Problem]:
    """Who has which GPU."""
    _need_values(facts)
    node, view = facts.node_name, facts.view
    if view is None:
        raise CannotAsk(f"The cluster has no node '{node}'; see cluster.node-ready.")
    if how := shared_out(view, facts.host.gpu_count):
        why = "of a GPU that pods share, NVML does not say which of them uses it"
        if view.layout.profile:
            why = "those that a pod holds may be of one GPU or of several"
        raise NotApplicable(f"Node '{node}' {how}: {why}.")
    rows = facts.answers.by_node.get(node, ())
    found = differing(held_on(view, view.offers(facts.host.gpu_count)), rows)
    if found:
        # A pod that came or went a moment ago is in one of both only; what differs alike in both looks is wrong.
        later = differing(facts.answers.held_later.get(node, {}), facts.answers.later_by_node.get(node, ()))
        found = {title: both for title, both in later.items() if found.get(title) == both}
    step = "Read the log of the exporter on the node."
    problems = [
        Problem(f"Node '{node}': pod '{title}' holds {held} GPUs, the metrics say {told}.", step)
        for title, (held, told) in found.items()
    ]
    return problems or _by_kubelet(facts, view, attributed(rows), step)


def _by_kubelet(facts: WatchedNode, view: NodeView, told: Mapping[str, set[str]], step: str) -> list[Problem]:
    """Of pods with the right number of GPUs, whether these are the ones that the kubelet gave them."""
    given = facts.record.allocations if facts.record else None
    if given is None:
        return []
    problems = []
    for tenant in view.tenants:
        ids = {name for name in given.devices.get(tenant.uid, ()) if name.startswith("GPU-")}
        if ids and tenant.title in told and ids != told[tenant.title]:
            problems.append(
                Problem(
                    f"Node '{facts.node_name}': the kubelet gave pod '{tenant.title}' {quoted(sorted(ids))}, the metrics say"
                    f" {quoted(sorted(told[tenant.title]))}.",
                    step,
                )
            )
    return problems


def _alerts(facts: WatchedNode) -> list[Mapping[str, Any]]:
    return [row for row in facts.answers.alerts if row["labels"].get("node") == facts.node_name]


def _said(row: Mapping[str, Any]) -> str:
    labels = row["labels"]
    return f"alert '{labels['alertname']}' fires: {row['annotations'].get('summary') or dict(labels)}"


def _fired(facts: WatchedNode) -> dict[str, Any]:
    rows = _alerts(facts)
    kept = [f"{_said(row)} (its cause is gone, its rule keeps it)" for row in rows if row["kept"]]
    return {"alerts": [dict(row["labels"]) for row in rows], **({"notes": kept} if kept else {})}


@check(
    "monitoring.alerts",
    place=50,
    proves="no critical alert of gpusmith fires for the node",
    fails_when="one does; other alerts are evidence, also those whose cause is gone, and which their rules keep for a while",
    do="see the alert's runbook",
    explained_by=("nodes.xid", "nodes.ecc", "cluster.gpu-capacity"),
    evidence=_fired,
)
def alerts(facts: WatchedNode) -> list[Problem]:
    """None that is critical, and whose cause is there."""
    need_answers(facts.answers)
    problems = []
    for row in _alerts(facts):
        if row["labels"].get("severity") == "critical" and not row["kept"]:
            runbook = row["annotations"].get("runbook_url")
            step = f"See {runbook}." if runbook else "Look at the node."
            problems.append(Problem(f"Node '{facts.node_name}': {_said(row)}.", step))
    return problems


def _delivered(facts: Watched) -> dict[str, Any]:
    told = facts.answers.delivery
    found: dict[str, Any] = {"alertmanagers": list(facts.answers.alertmanagers)}
    if told is None:
        return {**found, "notes": ["only Prometheus was asked, and not Alertmanager itself"]}
    found["receivers"] = {name: list(kinds) for name, kinds in told.receivers.items()}
    if not any(told.receivers.values()):
        found["notes"] = [
            "no receiver of Alertmanager sends messages: set 'gpu_monitoring_alertmanager_config'"
        ]
    return found


@check(
    "monitoring.delivery",
    place=60,
    proves="alerts of Prometheus arrive at Alertmanager",
    fails_when="Prometheus knows no Alertmanager, it does not answer, or the alert that always fires has not arrived there",
    do="run site.yml; read the logs of Prometheus and Alertmanager",
    per_node=False,
    evidence=_delivered,
)
def delivery(facts: Watched) -> list[Problem]:
    """What fires arrives."""
    wanted, answers = facts.wanted, facts.answers
    if wanted.alertmanager == NONE:
        raise NotApplicable("Not applicable: 'gpu_monitoring_alertmanager' is 'none'.")
    need_answers(answers)
    if not answers.alertmanagers:
        return [Problem("Prometheus knows no Alertmanager that it could send alerts to.", "Run site.yml.")]
    told, look = answers.delivery, f"Look at: kubectl -n {wanted.namespace} get pods -o wide"
    if told is None:
        return []
    if told.trouble:
        return [Problem(f"Alertmanager does not answer: {told.trouble}", look)]
    if told.watchdog is None and WATCHDOG not in wanted.disabled_alerts:
        return [
            Problem(
                f"Alert '{WATCHDOG}', which always fires, has not arrived at Alertmanager: nor would any other one.",
                f"Read the log of Prometheus: kubectl -n {wanted.namespace} logs deployment/prometheus",
            )
        ]
    return []
