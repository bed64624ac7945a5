"""The paper's competitors on one footing: the same backbone, base images, episodes and intervals for all."""
