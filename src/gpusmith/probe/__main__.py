"""Prints the record of this machine as one line of JSON."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from gpusmith.probe.collect import as_json, collect

print(as_json(collect()))
