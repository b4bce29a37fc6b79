"""How fast trimtab is compared with plain twins and other engines, on seeded workloads. `make bench` runs all."""
