"""Do several processes give the gradients that one gives?"""
