"""What every optimizer must do, as functions for the tests and for the zoo check."""
