"""The artifacts of builds: their tree, and pages that show one."""
