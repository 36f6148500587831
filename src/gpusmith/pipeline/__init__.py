"""The example pipeline on a cluster: its manifests as a site wants them, what refuses it, and its steps."""
