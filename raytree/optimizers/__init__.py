"""One small file per method."""
