"""What happens to the built pages: one style sheet, sizes of pictures, lighter HTML."""
