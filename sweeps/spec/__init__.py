"""What a sweep file may say. Torch-free."""
