"""What learns: small sets of parameters put on a frozen backbone, one kind a file."""
