"""What users call: `Job`, `Run` and `evaluate`."""
