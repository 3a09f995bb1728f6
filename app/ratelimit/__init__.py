"""Who may ask again when: clients, windows and the header fields that state them."""
