"""What a run will take, before it begins: steps are timed, memory is counted, and the plan says both in words."""
