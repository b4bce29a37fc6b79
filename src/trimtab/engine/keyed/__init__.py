"""Users' own operators: a description, and how its logic is called key by key."""
