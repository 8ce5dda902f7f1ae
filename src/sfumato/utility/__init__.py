"""What a release still says: probes, structure, pictures, distributions, and the frontier against ε."""
