"""Topic: over-smoothing with skip connections and fusion."""
