"""Time, memory and bytes kept for backward, beside the peers and beside one bare matrix product.

A bench is a list of jobs (`plan`), each measured in a process of its own (`run` starts it, `worker`
is it): `contenders` says what a row runs, `measure` how it is weighed. Records, no claims.
"""
