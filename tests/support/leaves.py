"""Compares two values of dictionaries, lists and plain values, path by path."""


def leaves(value, path=""):
    """Yields ("/a/0/b", 3) for each plain value, and the length of each list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}/{key}")
    elif isinstance(value, list):
        yield f"{path}/length", len(value)
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{number}")
    else:
        yield path, value


def differing(one, other, shown=lambda path, value: value):
    """Returns {path: (of one, of the other)}; `shown` removes from a value what may differ."""
    first, second = ({path: shown(path, leaf) for path, leaf in leaves(value)}
                     for value in (one, other))
    return {path: (first.get(path), second.get(path)) for path in first.keys() | second.keys()
            if first.get(path) != second.get(path)}
