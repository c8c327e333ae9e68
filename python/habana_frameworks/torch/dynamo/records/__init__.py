"""What this process tells about its graphs: records, log lines, ranges of a profile."""
