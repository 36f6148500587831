"""Divides the GPUs of this machine as its file says, and prints what was done as one line of JSON."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import sys

from gpusmith.partition.run import main

sys.exit(main(sys.argv[1:]))
