"""What an OpenVINO model holds, as values."""
