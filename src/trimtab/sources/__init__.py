"""Sources that trimtab reads itself: the protocol that all of them follow, and those that come with it."""
