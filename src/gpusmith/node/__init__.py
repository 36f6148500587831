"""Reaching nodes, and their records as typed facts."""
