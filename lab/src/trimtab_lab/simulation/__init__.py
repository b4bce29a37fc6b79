"""A cluster in a bottle: sources, workers, queues and hosts in discrete time, all from one seed."""
