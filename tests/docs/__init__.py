"""What is written for people is true of the code."""
