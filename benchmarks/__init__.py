"""Time, memory and agreement, beside the peers and beside one bare matrix product: `python -m benchmarks NAME`.

A benchmark is a list of jobs, each measured in a process of its own. `run` starts the processes and turns whatever
happens into rows; `answer` is what every process says; `measure` is how it is weighed; `inputs` is what it gets;
`settings` and `screen` are what the commands have in common. Each folder is one benchmark, but for

    serving       a device without torch and a server under load, each a program of its own
    fuzz          which measures nothing: it damages files, and counts what commands make of them
    records       what was measured here, as CSV

What a user's own machine is measured by is `shadowmetric doctor`, in `shadowmetric/app/doctor`.
"""
