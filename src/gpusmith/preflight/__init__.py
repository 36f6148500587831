"""Preflight: what a machine tells and the inventory wants, judged before any machine is changed."""
