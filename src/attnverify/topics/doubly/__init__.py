"""Topic: attention normalized over queries and keys."""
