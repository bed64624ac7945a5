"""Few-shot classification of a user's own images: prototypes, calibrated confidence, honest expectations."""
