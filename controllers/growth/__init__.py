"""A Ray cluster that runs and wants more workers: only with quota and booked capacity."""
