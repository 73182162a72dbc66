"""`python -m ozzie_kernel`: start the kernel, as the kernelspec does."""

from ozzie_kernel.ahead import launch_ahead

if __name__ == "__main__":
    launch_ahead()
    # After that, because these imports are most of a kernel's start.
    from ipykernel.kernelapp import IPKernelApp

    from ozzie_kernel.kernel import OzzieKernel

    IPKernelApp.launch_instance(kernel_class=OzzieKernel)
