"""What a TFLite model holds, as values."""
