"""Named, runnable proofs on the local cluster: `python -m e2e list`, `python -m e2e run NAME`."""
