"""Veeriah, Zhang and Sutton (2017), "Crossprop: Learning Representations by Stochastic Meta-Gradient Descent in Neural
Networks": its experiments and its claims."""
