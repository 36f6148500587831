"""Kernel modules that one node builds for all nodes of a kind: what they are for, where they are kept, and who builds."""
