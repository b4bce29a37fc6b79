"""The papers' tables and figures, reproduced: one package per paper."""
