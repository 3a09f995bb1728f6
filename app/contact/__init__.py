"""What a submission is and what becomes of it."""
