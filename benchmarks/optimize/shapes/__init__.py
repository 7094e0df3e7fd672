"""The operators at shapes drawn when it runs: are kernels general, and as good there?"""
