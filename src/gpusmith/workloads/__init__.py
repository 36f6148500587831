"""Workloads that prove a node's GPUs: one file per kind, a runner that says the order."""
