"""What a frozen backbone makes of images: computed once, kept in files, trained on as rows."""
