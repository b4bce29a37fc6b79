"""How fast trimtab is, beside plain twins and other engines, on seeded workloads. `make bench` runs all of it."""
