"""Windows over a stream: a row out per row in (`over`), or a row per key and window (`grouped`)."""
