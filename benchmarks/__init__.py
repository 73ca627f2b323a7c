"""Time, memory and agreement, beside the peers and beside one bare matrix product.

A bench is a list of jobs, each measured in a process of its own. `run` starts the processes and turns whatever
happens into rows; `answer` is what every process says; `measure` is how it is weighed; `inputs` is what it gets.

    losses        plan (the jobs), contenders (what a row runs), worker (the process)
    evaluation    evaluation_plan, evaluation_contenders, evaluation_worker; evaluation_bars judges two rows
    paths         kernels and host waits on a pretended accelerator (pretended_device, host_waits), times on the CPU,
                  in one process: path_contenders, dense, compile_times
    doctor        doctor (ranks beside one process), device_certificate (an accelerator beside the CPU)

Records, no claims.
"""
