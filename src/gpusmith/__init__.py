"""Typed core of gpusmith: nodes, clusters, deadlines, results and reports."""
