"""The program that gathers all facts of a node, and the dataclasses of what it finds (Python 3.8 on nodes)."""
