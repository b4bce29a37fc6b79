"""A simulated cluster: sources, workers, queues and hosts in discrete time, all from one seed."""
