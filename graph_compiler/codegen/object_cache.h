// Objects that this process has generated, by the code that they were generated from. It changes
// how long a compilation takes and never its bytes.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/hash.h"

namespace hpu::graph_compiler {

// Several threads may use it.
class ObjectCache {
 public:
  using Object = std::shared_ptr<const std::vector<char>>;

  // The least recently used objects are dropped beyond `most_bytes`.
  explicit ObjectCache(uint64_t most_bytes) : most_bytes_(most_bytes) {}
  // The cache of this process.
  static ObjectCache& OfProcess();

  // Returns null if there is none.
  Object Find(const Digest& code);
  void Keep(const Digest& code, Object object);

  struct Counts {
    uint64_t found = 0;
    uint64_t missing = 0;
    uint64_t bytes = 0;
  };
  Counts counts() const;

 private:
  struct Entry {
    Digest code;
    Object object;
  };
  using Entries = std::list<Entry>;  // the most recently used first

  const uint64_t most_bytes_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::map<Digest, Entries::iterator> places_;
  Counts counts_;
};

}  // namespace hpu::graph_compiler
