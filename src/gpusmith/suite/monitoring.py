"""What Prometheus and Alertmanager are asked: one query for each fact of the whole cluster, however many nodes it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import yaml

from gpusmith.checks.watched import Answers, Delivery, Held, Series, differing, fewer
from gpusmith.cluster.web import Prometheus, Silent, Web
from gpusmith.data import monitoring
from gpusmith.data.monitoring import WATCHDOG
from gpusmith.data.operands import MANAGED
from gpusmith.names import EXPORTER, STATE_METRICS
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wanted.node import Monitoring

OF_POD = "node, UUID, modelName, namespace, pod"
UP = f'up{{job=~"{EXPORTER}|{STATE_METRICS}"}}'
AGES = f'time() - timestamp(up{{job="{EXPORTER}"}})'
MOST_LACKING = 20
"""GPUs that are asked for what they lack."""
INTERVALS = 2
"""After so many, no value is from before: one that the exporter takes to read its values, one until the next scrape."""
TICK_S = 5.0
RELOAD_S = 120
"""Until a kubelet has brought changed rules to its pod, and Prometheus has read them."""
RESEND_S = 90
"""Until an Alertmanager that started a moment ago has an alert that fires for long: Prometheus sends it once a minute."""


def _counters(uuids: str = ".+") -> str:
    return f'{{__name__=~"{"|".join(monitoring.counters())}", node!="", UUID=~"{uuids}"}}'


def gpus() -> str:
    """The query for GPUs, the pods that have them, and how many counters each has."""
    return f"count by ({OF_POD}) (group by (__name__, {OF_POD}) ({_counters()}))"


def models() -> str:
    """The query for the counters that GPUs of a model have."""
    return f"count by (__name__, modelName) (group by (__name__, modelName, UUID) ({_counters()}))"


def lacking(uuids: Iterable[str]) -> str:
    """The query for the counters that some GPUs have."""
    return f"group by (__name__, UUID) ({_counters('|'.join(uuids))})"


@dataclass(frozen=True)
class Asked:
    """Who is asked, and about what.

    Attributes:
        wanted: of the inventory.
        prometheus: the way to it.
        alertmanager: the way to it; None if there is none.
        nodes: that are Ready and have an exporter.
        held: GPUs that pods hold, of nodes that hand out whole ones.
        held_again: looks once more.
        say: told about long steps.
    """

    wanted: Monitoring
    prometheus: Web
    alertmanager: Web | None
    nodes: frozenset[str]
    held: Held
    held_again: Callable[[], Held]
    say: Callable[[str], None]


def ask(asked: Asked) -> Answers:
    """All answers.

    Raises:
        ToolError: the way to Prometheus is broken.
    """
    api = Prometheus(asked.prometheus)
    try:
        found = Answers(
            reloaded=bool(api.get("status/runtimeinfo").get("reloadConfigSuccess", True)),
            rules=_rules(asked, api),
            alerts=_alerts(api.get("alerts")["alerts"]),
            alertmanagers=tuple(row["url"] for row in api.get("alertmanagers")["activeAlertmanagers"]),
            up=_up(asked, api),
            ages=tuple(api.query(AGES)),
            gpus=tuple(api.query(gpus())),
            models=tuple(api.query(models())),
        )
        few = [row["metric"]["UUID"] for row in fewer(found, found.gpus)]
        if few:
            found = replace(found, lacking=tuple(api.query(lacking(few[:MOST_LACKING]))))
        found = _settled(asked, api, found)
    except Silent as error:
        return Answers(trouble=error.message)
    except (KeyError, TypeError, AttributeError) as error:
        return Answers(trouble=f"it answers as no Prometheus does: {error!r}.")
    return replace(found, delivery=_delivery(asked, asked.alertmanager) if asked.alertmanager else None)


def _wait(asked: Asked, what: str, seconds: int, late: Callable[[], str]) -> None:
    """While something is late, by its name, ask again, for so long at most: then the check says what is missing."""
    if not late():
        return
    asked.say(f"waiting for {what}, {seconds} s at most")
    with suppress(WaitTimeout):
        wait_until(what, lambda: NotYet(said) if (said := late()) else Done(None), Deadline(seconds), TICK_S)


def _rules(asked: Asked, api: Prometheus) -> dict[str, str]:
    """Once those of the inventory are loaded, if that is for Prometheus to do: site.yml may have changed them a moment ago."""
    found: dict[str, str] = {}

    def late() -> str:
        found.clear()
        found.update(_loaded(api.get("rules", exclude_alerts="true")["groups"]))
        missing = monitoring.rules() - asked.wanted.disabled_alerts - found.keys()
        return ", ".join(sorted(missing)) if asked.wanted.prometheus == MANAGED else ""

    _wait(asked, "Prometheus to load all rules", RELOAD_S, late)
    return found


def _loaded(groups: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Those of gpusmith, with what is wrong with each; a name may stand in several places."""
    found: dict[str, str] = {}
    for row in (rule for group in groups for rule in group["rules"]):
        if row["name"] in monitoring.rules():
            bad = str(row.get("lastError") or "no reason given") if row.get("health") == "err" else ""
            found[row["name"]] = found.get(row["name"]) or bad
    return found


def _alerts(rows: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {
            "labels": row["labels"],
            "annotations": row.get("annotations") or {},
            "kept": "keepFiringSince" in row,
        }
        for row in rows
        if row["state"] == "firing" and row["labels"]["alertname"] in monitoring.rules()
    )


def _up(asked: Asked, api: Prometheus) -> tuple[Mapping[str, Any], ...]:
    """Of all exporters, once Prometheus knows them: a pod that started a moment ago has not been scraped yet."""
    rows: list[Series] = []

    def late() -> str:
        rows[:] = api.query(UP)
        return ", ".join(sorted(asked.nodes - {row["metric"].get("node") for row in rows}))

    _wait(asked, "Prometheus to know all exporters", INTERVALS * asked.wanted.interval_s, late)
    return tuple(rows)


def _doubtful(nodes: Iterable[str], held: Held, found: Mapping[str, Sequence[Series]]) -> list[str]:
    """Nodes of which API and metrics say different things."""
    return [node for node in sorted(nodes) if differing(held.get(node, {}), found.get(node, ()))]


def _settled(asked: Asked, api: Prometheus, found: Answers) -> Answers:
    """With a later look, where API and metrics differ: a pod that came or went a moment ago is in one of both only."""
    nodes = [node for node in asked.held if found.scraped.get(node)]
    if not _doubtful(nodes, asked.held, found.by_node):
        return found
    later, pause = found, asked.wanted.interval_s

    def look() -> Done[None] | NotYet:
        nonlocal later
        later = replace(found, held_later=asked.held_again(), gpus_later=tuple(api.query(gpus())))
        bad = _doubtful(nodes, later.held_later, later.later_by_node)
        return NotYet(", ".join(bad)) if bad else Done(None)

    asked.say(f"waiting for metrics to name the pods that hold GPUs, {INTERVALS * pause} s at most")
    with suppress(WaitTimeout):
        wait_until("the metrics", look, Deadline(INTERVALS * pause), pause)
    return later


def _delivery(asked: Asked, web: Web) -> Delivery:
    rows: list[Any] = []

    def late() -> str:
        rows[:] = web.get("/api/v2/alerts", filter=f'alertname="{WATCHDOG}"')
        return "" if rows or WATCHDOG in asked.wanted.disabled_alerts else WATCHDOG

    try:
        _wait(asked, f"{WATCHDOG} to arrive at Alertmanager", RESEND_S, late)
        config = yaml.safe_load(web.get("/api/v2/status")["config"]["original"]) or {}
        return Delivery(
            watchdog=sorted({each["name"] for row in rows for each in row["receivers"]}) if rows else None,
            # Where messages go may be secret.
            receivers={
                row["name"]: sorted(kind for kind, value in row.items() if kind != "name" and value)
                for row in config.get("receivers") or []
            },
        )
    except Silent as error:
        return Delivery(trouble=error.message)
    except (KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        return Delivery(trouble=f"it answers as no Alertmanager does: {error!r}.")
