"""What this process reports about its graphs: records, log lines, ranges of a profile."""
