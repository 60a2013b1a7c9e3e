"""What people see of a sweep: the plan, its cost, its status. Torch-free."""
