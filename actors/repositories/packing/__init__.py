"""The packing of a commit as the source of a build: its files, history, submodules and LFS objects."""
