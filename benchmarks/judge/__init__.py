"""Does the judge catch those who cheat, and leave the honest alone? Attacks and honest kernels."""
