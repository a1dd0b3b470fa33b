"""What to evaluate next, given a posterior."""
