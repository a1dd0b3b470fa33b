"""One surrogate per method, each a fit that returns a posterior."""
