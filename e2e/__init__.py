"""The local cluster of real parts, and everything that runs on it.

    build       Go sources -> binaries and manifests in a cache folder, once
    cluster     start, stop and look at one cluster
    nodes       pods as processes, in network namespaces
    pools       a stand-in for Cluster Autoscaler and its cloud
    scenarios   what is to be true of taugrid-ray, each runnable by name

Linux only. Nothing of it is installed with the library.
"""
