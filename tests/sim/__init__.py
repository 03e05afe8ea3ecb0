"""Lives of whole clusters in virtual time: the real loop of the controller and the real core of the
autoscaler, with small stand-ins for Kueue, the job controllers, scheduler and kubelets.

A life is a function of its seed alone. `python -m tests.sim SEED` tells the story of one.
"""
