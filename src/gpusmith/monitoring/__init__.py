"""Metrics and alerts: what role gpu_monitoring ships, as Python reads it."""
