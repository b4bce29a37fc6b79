"""The papers' tables and figures, regenerated: one file a paper."""
