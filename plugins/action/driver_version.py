"""Action plugin: one exact version of the driver for all nodes of a run that get one."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.errors import Refusal
from gpusmith.expect import choice
from gpusmith.expect.choice import Offer


class ActionModule(ControllerAction):
    """Reads what every host is offered, and decides once."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:  # noqa: ARG002 - it changes nothing
        of = Variables(self.variables.get("hostvars"))
        answers = {
            host: of.written(host).get(asked["offers"]) or {}
            for host in self.variables.get("ansible_play_hosts", [])
        }
        offers = {host: _offer(answer["offer"]) for host, answer in answers.items() if answer.get("offer")}
        chosen = choice.choose(offers)
        for line in choice.lines(offers, chosen):
            Display().display(line)
        return {"changed": False, "hosts": {host: dataclasses.asdict(one) for host, one in chosen.items()}}


def _offer(row: Mapping[str, Any]) -> Offer:
    refusal = row.get("refusal")
    return Offer(str(row["asked"]), tuple(row["versions"]), Refusal(**refusal) if refusal else None)
