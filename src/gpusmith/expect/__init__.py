"""The judge: what is wrong with a node, from its record and what is wanted of it.

Pure functions. The suite's checks and the roles' plans call the same ones, so that what one reports the other repairs.
"""
