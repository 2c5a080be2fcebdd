"""Vector indexes behind five verbs: base.py has the verbs, registry.py the backends, embedded.py the default."""
