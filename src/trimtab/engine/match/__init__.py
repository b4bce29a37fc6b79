"""MATCH_RECOGNIZE: from a checked pattern to kernels that run over columns."""
