// Finds a minimum cut of a directed graph with capacities on its edges.
#pragma once

#include <cstdint>
#include <vector>

namespace hpu::compiler {

class MinCut {
 public:
  static constexpr uint64_t kUnlimited = UINT64_MAX / 4;

  // Vertices are numbered from 0; the first two are source and sink.
  static constexpr uint32_t kSource = 0;
  static constexpr uint32_t kSink = 1;

  explicit MinCut(uint32_t vertices) : first_(vertices, kNone) {}

  // Repeated edges add up. `capacity` is at most kUnlimited.
  void AddEdge(uint32_t from, uint32_t to, uint64_t capacity);

  // Returns, by vertex, whether it is on the source's side of a minimum cut, the one nearest to the
  // source. It may be called once per object. It uses Dinic's algorithm (Soviet Math. Doklady 11,
  // 1970): O(vertices^2 * edges), and far less in graphs of unit-like structure. A cut of
  // kUnlimited or more means that source and sink cannot be separated.
  std::vector<bool> Solve();
  uint64_t value() const { return value_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Edge {
    uint32_t to;
    uint32_t next;  // next edge of the same vertex
    uint64_t capacity;
  };

  bool FindLevels();
  uint64_t Augment();

  std::vector<uint32_t> first_;    // first edge of each vertex
  std::vector<Edge> edges_;        // the reverse of edge e is e ^ 1
  std::vector<uint32_t> level_;    // kNone: not reachable from the source
  std::vector<uint32_t> current_;  // the edge of each vertex that is tried next
  uint64_t value_ = 0;
};

}  // namespace hpu::compiler
