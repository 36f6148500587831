"""The one way to a cluster: a client, views of what its lists say, and what gpusmith does there."""
