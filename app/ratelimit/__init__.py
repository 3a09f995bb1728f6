"""Rate limits: the key of a client, the sliding windows, and the header fields that state them."""
