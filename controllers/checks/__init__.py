"""The set-up objects: is an AdmissionCheck of ours usable, is a CapacityPolicy valid?"""
