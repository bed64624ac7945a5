"""Frozen vision transformers -> embeddings."""
