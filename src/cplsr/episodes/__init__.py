"""N-way K-shot episodes: which images they hold, and the prototype classifier on them."""
