"""Where sessions are kept: one contract (``protocol``) and its members."""
