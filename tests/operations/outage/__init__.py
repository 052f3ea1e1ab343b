"""Outages under checked load, beside the same load sent straight to Cassandra; README.md in the folder above says more."""
