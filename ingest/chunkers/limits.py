"""How large a piece may be, and why."""

MAX_CHARS = 6_000
"""Largest piece, in characters: about 1,500 to 2,000 tokens of code, so that one whole piece fits
the default context budget of 2,000 tokens. The default embedder reads the first 256 tokens, which
for a function are its header, signature, comment and first statements; lexical search reads all.
Cutting functions to the embedder's window would leave most kernels in fragments that cannot be
shown as an example."""

WINDOW_CHARS = 2_000
"""Target size of a window over lines that no function or heading holds together (imports,
constants, prototypes, plain text). Nothing ties such lines to each other, so smaller windows keep
each embedding about one thing; about twice the embedder's window."""

PROSE_CHARS = 1_500
"""Target size of a part of an over-long Markdown section. English runs at 4 to 5 characters a
token, so this is a little above the embedder's 256-token window: the loss at the tail costs less
than cutting most sections in two."""

CLASS_CHARS = 2_500
"""A class up to this size stays one piece: its methods are then too short to stand alone and are
read together. Above it each method is a piece."""

MEMBER_CHARS = 300
"""A method below this size stays with its neighbours under the class's name: accessors and one-line
operators say little alone and would be most of the index."""

NAME_CHARS = 60
"""A specialised class keeps its template arguments in its name up to this size."""

SIGNATURE_CHARS = 300
"""A signature or heading is cut here: long template headers would drown a result's title line."""
