"""Rate limits: the sliding windows, their storage, and the header fields that state them."""
