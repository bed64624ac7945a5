"""Latent space reservation: Gaussian pseudo-classes in embedding space."""
