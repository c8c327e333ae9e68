"""Reports of this process about its graphs: records, log lines, ranges of a profile."""
