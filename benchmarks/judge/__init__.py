"""Does the judge catch attacks and accept honest kernels?"""
