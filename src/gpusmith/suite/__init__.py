"""One run of the validation suite: asks each source once, answers each check from it, collects what was found."""
