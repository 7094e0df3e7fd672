"""What two rules of the search are worth, crossover and retirement, on measured landscapes.

No proposer without a model combines two candidates, so runs of these say nothing about crossover,
and a run of a minute or two is over before a family could be retired. Here the real search runs on
kernels whose times were all measured before, with a proposer that needs no model: it changes one
setting at a time, and combines two kernels by giving one the settings of the other. It says what
the rules do to such a search; what a language model would make of them it does not say.
"""
