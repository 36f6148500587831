"""Six GPU nodes at once: brought in, left alone by a second run, validated."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.harness import Lab

NODES = {f"gpu-{number}": 1 for number in range(1, 7)}


def test_six_nodes(no_lab: Lab, measured: Callable[[str, object], None]) -> None:
    no_lab.up("--gpu-nodes", str(len(NODES)), "--gpus", "1")
    first = no_lab.site_ok()
    no_lab.wait_allocatable(NODES, 60)
    second = no_lab.site_ok()
    assert {host: row["changed"] for host, row in second.recap().items() if row["changed"]} == {}, str(second)
    validation = no_lab.validate()
    validation.assert_passed()
    tested = validation.results["coverage"]["gpus"]["uuids"]
    assert {row["node"] for row in tested} == set(NODES)
    assert len({row["uuid"] for row in tested}) == len(NODES)
    # Exit status 1 says that the budget was missed.
    bench = no_lab.run("scripts/bench-second-run", timeout=900)
    assert bench.status in (0, 1), str(bench)
    took = f"first site.yml {first.seconds:.0f} s, validation {validation.ended.seconds:.0f} s"
    measured("six nodes", f"{took}; {bench.output.strip().splitlines()[-1]}")
    assert bench.status == 0, str(bench)
