"""What a run of a playbook did, or would do, in a few lines at its end."""
