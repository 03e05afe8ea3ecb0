"""A real RayJob, told as it happens: what waits for what, how long, and where to look.

facts         what is known of the job at one moment, out of the API server's objects
story         pure: facts to lines
show          the demo itself: cluster, set-up, job, end
commandline   `python -m e2e demo`
"""
