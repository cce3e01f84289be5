"""Topic: claims that are nothing but the outcome of an experiment."""
