"""What lies in a run's log folder, to be compared with torchrun's."""


def files_below(place):
    """The lines of each file, sorted, by its name. Without ddprun's evidence of a round that has
    failed (attempt_N/evidence), of which torchrun has nothing."""
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(place)): sorted(path.read_text().splitlines())
            for path in files if path.parent.name != "evidence"}
