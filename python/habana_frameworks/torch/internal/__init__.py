"""What the modules of this package share and the reference keeps out of sight."""
