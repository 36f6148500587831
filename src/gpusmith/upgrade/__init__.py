"""Upgrades of the driver, the first `Change` of gpusmith.change: plan, and what is done to a machine."""
