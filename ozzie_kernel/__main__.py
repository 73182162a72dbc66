"""`python -m ozzie_kernel`: start the kernel, as the kernelspec does."""

from ipykernel.kernelapp import IPKernelApp

from ozzie_kernel.kernel import OzzieKernel

if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=OzzieKernel)
