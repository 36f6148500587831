"""Checks of the nodes tier on how programs and containers get at the GPUs: device nodes, the links to them, and CDI."""

from __future__ import annotations

from typing import Any

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.expect import cdi as expected_cdi
from gpusmith.expect import devices as expected
from gpusmith.expect.wanted import cdi_of
from gpusmith.node.facts import NodeFacts
from gpusmith.probe.record import Record
from gpusmith.problems import Problem


def device_nodes(facts: NodeFacts) -> list[Problem]:
    """The driver's own device nodes are there, and each one is what its name says."""
    return expected.device_nodes(facts.record, facts.host.name)


@check(
    "nodes.char-links",
    place=180,
    proves="links in /dev/char let containers keep their GPUs over a reload of systemd",
    fails_when=(
        "the link of a GPU's device node, or of one of the driver's own device nodes such as nvidia-uvm, is missing or"
        " leads elsewhere"
    ),
    do="run 'nvidia-ctk system create-dev-char-symlinks --create-all' on the node, or site.yml",
)
def char_links(facts: NodeFacts) -> list[Problem]:
    """Links keep device nodes in running containers."""
    if not facts.record.dev.gpu_minors:
        raise CannotAsk(f"Node '{facts.host.name}' has no GPU device nodes; see nodes.gpu-count.")
    return expected.char_links(facts.record, facts.host.name)


def cdi_evidence(record: Record) -> dict[str, Any]:
    """Which specifications there are, and which of them nobody gets because others win."""
    return expected_cdi.evidence(record)


@check(
    "nodes.cdi",
    place=170,
    proves="the CDI specifications of node and device plugin are there and lead exactly to the node's GPUs",
    fails_when=(
        "it is missing, unreadable, stale or there twice; gpusmith's device plugin has not written its own; or a device in one of"
        " them leads elsewhere"
    ),
    do="run site.yml, or 'nvidia-ctk cdi generate --output=FILE' on the node; the device plugin writes its own when it starts",
    evidence=lambda facts: cdi_evidence(facts.record),
    explained_by=("nodes.driver-versions", "nodes.gpu-count", "nodes.gpu-layout"),
)
def cdi(facts: NodeFacts) -> list[Problem]:
    """Made for the loaded driver, with every GPU under its own device node, and from one source."""
    wanted, seen = cdi_of(facts.host), facts.record.cdi
    if not (wanted.required or wanted.restart_plugin or seen.specs or seen.plugin_specs):
        raise NotApplicable(
            f"Toolkit and device plugin of '{facts.host.name}' are of others and use no CDI specification."
        )
    return [*expected_cdi.plugin(facts.record, wanted), *expected_cdi.problems(facts.record, wanted)]
