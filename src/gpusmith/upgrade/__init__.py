"""Rolling upgrades of the driver: plan, budget, ledger and the steps of one node."""
