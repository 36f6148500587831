"""The checks themselves: pure functions over facts that others gathered.

Each returns its problems (an empty list is a pass) or raises NotAsked. Causes name node, GPU and reason.
"""
