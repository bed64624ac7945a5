"""Latent space reservation: Gaussian pseudo-classes in embedding space and rotated images as new classes."""
