"""The inventory: what its variables may be, which run may start, and the GPU nodes that it describes."""
