"""The ports to the Jupyter Server around the gateway: the kernels that it runs, and notebooks that are open there."""
