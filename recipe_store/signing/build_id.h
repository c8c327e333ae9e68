// A build id is a digest of the bytes that decide what a compilation gives (the server's program
// file and the Synapse library that it loads), and no version string. It enters every key and
// manifest, so that a rebuilt compiler never answers with what an older one made.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace hpu::store {

// Returns the files of a compiler: the server's program, then the Synapse library
// (HPU_SYNAPSE_LIBRARY or libSynapse.so next to the program) and its graph compiler, as far as they
// exist.
std::vector<std::string> CompilerFiles(const std::string& server_program);

// Returns the hexadecimal SHA-256 of names and contents. With a `cache_file`, the digests of files
// whose size, times and inode are unchanged come from it, unless someone other than this user can
// write it. The cache file is brought up to date if that is possible (mode 0600). NOT_FOUND: a file
// cannot be read.
absl::StatusOr<std::string> BuildId(const std::vector<std::string>& files,
                                    const std::string& cache_file);

}  // namespace hpu::store
