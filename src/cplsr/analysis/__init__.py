"""What an adapter did: ordering inside attention, cost, the terms of the generalization bound."""
