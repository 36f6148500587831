"""What to do about a refusal of the API server, or of a registry."""

from __future__ import annotations

import re
from http import HTTPStatus

from gpusmith.cluster import retries

ADMISSION = re.compile(
    r"admission|denied the request|violates PodSecurity|\[denied by|must provide labels|Policy"
    r"|exceeded quota|failed quota|usage per (Container|Pod)",
    re.IGNORECASE,
)
"""What the words of admission plugins, webhooks and policies have in common."""
OF_RIGHTS = re.compile(r"\bUser \"[^\"]*\" cannot ")
"""How those about rights say that a user cannot do it, whatever else an authorizer adds."""


OF_CREDENTIALS = re.compile(
    r"unauthorized|authentication required|authorization failed|access denied|access to the resource is denied|\b40[13]\b",
    re.IGNORECASE,
)
"""The words of registries."""
BY_POLICIES = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)


def hint_for(status: int, kubeconfig: str, said: str = "", of_kubernetes: bool = True) -> str:
    """What to do about a refusal: who is not known has other troubles than who may not, and whom a policy refuses another one.

    Args:
        status: of HTTP.
        kubeconfig: its path.
        said: the refusal.
        of_kubernetes: whether an API server of Kubernetes may have said it.
    """
    if not of_kubernetes and status not in retries.PASSING:
        return (
            "What answers there is no API server of Kubernetes, but perhaps a proxy: correct 'server' in kubeconfig"
            f" '{kubeconfig}', or give another one with 'gpusmith_kubeconfig'."
        )
    policy = of_policy(said) if status in BY_POLICIES else ""
    if policy:
        return policy
    if status == HTTPStatus.UNAUTHORIZED:
        return f"The credential in kubeconfig '{kubeconfig}' has expired or is wrong: fetch it again from the cluster."
    if status == HTTPStatus.FORBIDDEN:
        return f"Check the rights of the user in kubeconfig '{kubeconfig}'."
    if status == HTTPStatus.CONFLICT:
        return "Somebody else changed it at the same moment: run this again."
    if status in retries.PASSING:
        return "The API server, etcd or a webhook is in trouble: look at their logs, then run this again."
    return ""


def of_policy(said: str) -> str:
    """What satisfies a policy of the cluster; empty if it was none that refused."""
    if not ADMISSION.search(said) or OF_RIGHTS.search(said):
        return ""
    return (
        "A policy of the cluster refuses it: give it what that asks for (the suite by 'validation_labels',"
        " 'validation_annotations', 'validation_pod_limits', operands by 'gpu_operands_labels'), or have its owner make an"
        " exception."
    )


def of_registry(said: str) -> str:
    """How a registry gets the credentials that it asks for; empty if it does not."""
    if not OF_CREDENTIALS.search(said):
        return ""
    return "A registry that asks for credentials gets them from a Secret in 'gpusmith_image_pull_secrets'."
