"""Published sources: packages of a package index and git repositories, fetched once and cached."""
