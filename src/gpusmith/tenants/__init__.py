"""Teams that share a cluster: what the inventory lets each of them have, as objects of Kubernetes."""
