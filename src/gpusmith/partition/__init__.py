"""What divides a machine's GPUs as its own word says, at each boot and when a layout changes (Python 3.8 on nodes)."""
