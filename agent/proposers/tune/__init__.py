"""Changes the meta-parameters of a Triton kernel and keeps what is faster."""
