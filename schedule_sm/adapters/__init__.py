"""One file per framework, each imported only on demand."""
