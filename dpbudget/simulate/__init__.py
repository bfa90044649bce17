"""DP-SGD and federated DP on small models, to see what the noise does before a GPU-hour is spent. No accounting here."""
