"""The content of a run's log folder, for comparisons with torchrun's."""


def files_below(place):
    """The sorted lines of each file, by its path. It leaves out ddprun's evidence of a failed round
    (attempt_N/evidence), which torchrun does not have."""
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(place)): sorted(path.read_text().splitlines())
            for path in files if path.parent.name != "evidence"}
