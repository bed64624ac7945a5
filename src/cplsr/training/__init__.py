"""Episodic training of an adapter on a base domain."""
