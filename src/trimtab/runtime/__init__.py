"""The Spark side: streams in, batches through the engines, matches out."""
