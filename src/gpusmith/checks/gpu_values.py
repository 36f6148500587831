"""Which GPUs a value is known of; where it is not, whether the GPU has no such thing or could not be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.node.facts import NodeFacts, need_nvml
from gpusmith.probe.nvml import Gpu
from gpusmith.problems import Problem


@dataclass(frozen=True)
class Sorted:
    """GPUs by what NVML answered.

    Attributes:
        node: its name.
        what: the value in words.
        known: it was read.
        problems: it could not be read, one per GPU.
        not_applicable: the GPU has no such thing.
        silent: the GPU does not answer at all, which another check reports.
    """

    node: str
    what: str
    known: tuple[Gpu, ...]
    problems: tuple[Problem, ...]
    not_applicable: tuple[Gpu, ...]
    silent: tuple[Gpu, ...]

    def judged(self, found: Sequence[Problem]) -> list[Problem]:
        """All problems; without any, what was not proved for every GPU is no pass.

        Args:
            found: what is wrong with the known values.

        Raises:
            CannotAsk: a GPU does not answer.
            NotApplicable: a GPU has no such value.
        """
        problems = [*self.problems, *found]
        if problems:
            return problems
        rest = f"; nothing is wrong with the other {len(self.known)}" if self.known else ""
        if self.silent:
            names = ", ".join(gpu.label for gpu in self.silent)
            raise CannotAsk(f"Node '{self.node}': {names} does not answer{rest}; see nodes.nvml.")
        if self.not_applicable:
            names = ", ".join(gpu.label for gpu in self.not_applicable)
            raise NotApplicable(
                f"Node '{self.node}': not applicable: NVML does not support {self.what} on {names}{rest}."
            )
        return []


def sort(
    facts: NodeFacts, values: Sequence[str], what: str, missing: str = "", without: Sequence[Gpu] = ()
) -> Sorted:
    """The node's GPUs by whether values are known.

    Args:
        facts: of the node.
        values: their keys in the probe's record.
        what: the values in words.
        missing: why NVML's 'not supported' is wrong for this model; empty if it is right.
        without: GPUs that the caller has judged already.

    Raises:
        CannotAsk: NVML cannot be asked at all.
    """
    known, problems, none, silent = [], [], [], []
    for gpu in need_nvml(facts):
        if gpu in without:
            continue
        unreadable = {name: gpu.unreadable[name] for name in values if name in gpu.unreadable}
        unsupported = [name for name in values if name in gpu.unsupported]
        if gpu.error:
            silent.append(gpu)
        elif unreadable or (unsupported and missing):
            why = " and ".join(dict.fromkeys(unreadable.values())) or f"Not Supported, but {missing}"
            problems.append(
                Problem(
                    f"Node '{facts.host.name}': {what} of {gpu.label} cannot be read, NVML says: {why}.",
                    f"Run 'nvidia-smi -q -i {gpu.index}' and 'journalctl -k -g NVRM' on '{facts.host.name}';"
                    " what cannot be read is not proved.",
                    {
                        "gpu": gpu.index,
                        "uuid": gpu.uuid,
                        "unreadable": unreadable,
                        "unsupported": unsupported,
                    },
                )
            )
        elif unsupported:
            none.append(gpu)
        else:
            known.append(gpu)
    return Sorted(facts.host.name, what, tuple(known), tuple(problems), tuple(none), tuple(silent))
