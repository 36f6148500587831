"""Rolling changes of nodes, whatever is changed: ledger, budget and the steps of one node, over the protocol `Change`."""
