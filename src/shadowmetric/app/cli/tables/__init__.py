"""What commands print, one file a command."""
