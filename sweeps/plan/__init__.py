"""From a sweep file to points, and from points to what is finished, running or still to do. Torch-free."""
