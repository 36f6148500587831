"""What the inventory wants, typed, each thing once."""
