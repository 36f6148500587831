"""GPUs that pods hold and do not use: what is known of them, what is to be done about it, and doing it."""
