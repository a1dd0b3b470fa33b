"""How the next configuration is chosen: strategies, and the parts they are made of."""
