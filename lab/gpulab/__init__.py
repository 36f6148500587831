"""The lab: a Kubernetes cluster of machines with simulated GPUs on one Linux host."""
