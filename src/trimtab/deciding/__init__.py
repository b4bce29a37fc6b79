"""Where key groups go and how many engines there are: decisions as pure functions of what was observed."""
