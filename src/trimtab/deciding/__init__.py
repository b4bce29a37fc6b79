"""Where key groups go, and how many engines there are: decisions that follow from what was observed alone."""
