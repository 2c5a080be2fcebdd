"""Vector indexes: base.py has the verbs, registry.py the backends (`open_index`), embedded/ the default one."""
