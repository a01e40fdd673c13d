"""What a model is built from. Start with `linear.py`."""
