"""Changing how the GPUs of nodes that serve are handed out."""
