# Sourced by scripts that start the programs of .venv; expects the checkout's folder in 'root'.
# shellcheck shell=bash
export PATH="${root:?}/.venv/bin:$PATH"
# Output appears as it comes, also where it goes to a file.
export PYTHONUNBUFFERED=1
# Many containers say that Python keeps no byte code, and each start of Ansible then compiles it anew: a third of its time.
unset PYTHONDONTWRITEBYTECODE
