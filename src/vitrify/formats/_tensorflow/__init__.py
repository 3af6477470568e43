"""What TensorFlow's formats share: graphs as they are walked, their operators, and the index of a checkpoint."""
