"""Fleets: agents over gRPC, local agents."""
