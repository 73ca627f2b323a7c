"""Is an accelerator's result the CPU's, and what does a step ask of it?"""
