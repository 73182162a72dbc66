"""The ports to the surrounding Jupyter Server: the kernels that it runs, and the notebooks that are open there."""
