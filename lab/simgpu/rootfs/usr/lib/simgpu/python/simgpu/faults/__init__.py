"""The faults, one module each; ``simgpu.fault.registry()`` finds them."""
