"""Accuracy on target domains: embed every image once, then thousands of paired episodes."""
