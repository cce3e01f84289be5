"""Topic: attention whose exponential is replaced, as in linear attention."""
