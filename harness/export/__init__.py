"""Runs as folders that other programs open: models of Hugging Face with tokenizer and card."""
