#include "data_loader/blobs.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hpu::data_loader {
namespace {

// Neighbours of one label in a row of the last axis. Runs that touch each other form a tree of
// parents; the cuboid of a root contains the whole tree.
struct Run {
  uint8_t label;
  size_t parent;
  Cuboid cuboid;
  Range own;  // in its row
};

class Forest {
 public:
  std::vector<Run>& runs() { return runs_; }

  size_t RootOf(size_t run) {
    while (runs_[run].parent != run) {
      runs_[run].parent = runs_[runs_[run].parent].parent;
      run = runs_[run].parent;
    }
    return run;
  }
  void Join(size_t a, size_t b) {
    a = RootOf(a);
    b = RootOf(b);
    if (a == b) return;
    runs_[b].parent = a;
    for (size_t axis = 0; axis < 3; ++axis) {
      Range& range = runs_[a].cuboid[axis];
      range.begin = std::min(range.begin, runs_[b].cuboid[axis].begin);
      range.end = std::max(range.end, runs_[b].cuboid[axis].end);
    }
  }
  // Joins the runs of a row with those of a row beside it, which are in ascending order.
  void JoinRows(Range row, Range beside) {
    while (row.begin < row.end && beside.begin < beside.end) {
      const Run& a = runs_[row.begin];
      const Run& b = runs_[beside.begin];
      if (a.label == b.label && a.own.begin < b.own.end && b.own.begin < a.own.end) {
        Join(row.begin, beside.begin);
      }
      ++(a.own.end < b.own.end ? row.begin : beside.begin);
    }
  }

 private:
  std::vector<Run> runs_;
};

// Adds the runs of a row and returns their numbers.
Range AddRow(const uint8_t* row, const View::Axis& axis, int64_t z, int64_t y,
             std::vector<Run>& runs) {
  Range added{.begin = static_cast<int64_t>(runs.size()), .end = 0};
  for (int64_t x = 0; x < axis.size;) {
    const uint8_t label = row[x * axis.stride];
    const int64_t begin = x;
    while (x < axis.size && row[x * axis.stride] == label) ++x;
    if (label == 0) continue;
    const Range own{begin, x};
    runs.push_back({.label = label,
                    .parent = runs.size(),
                    .cuboid = {Range{z, z + 1}, Range{y, y + 1}, own},
                    .own = own});
  }
  added.end = static_cast<int64_t>(runs.size());
  return added;
}

int64_t VolumeOf(const Cuboid& cuboid) {
  int64_t volume = 1;
  for (const Range& range : cuboid) volume *= range.end - range.begin;
  return volume;
}

}  // namespace

std::vector<Blobs> FindBlobs(const View& labels, size_t most) {
  Forest forest;
  const auto& [depth, height, width] =
      std::array<View::Axis, 3>{labels.axes[0], labels.axes[1], labels.axes[2]};
  std::vector<Range> plane(height.size);  // the rows of the plane before, then of this one
  for (int64_t z = 0; z < depth.size; ++z) {
    for (int64_t y = 0; y < height.size; ++y) {
      const uint8_t* row = labels.first + z * depth.stride + y * height.stride;
      const Range added = AddRow(row, width, z, y, forest.runs());
      if (z > 0) forest.JoinRows(added, plane[y]);
      if (y > 0) forest.JoinRows(added, plane[y - 1]);
      plane[y] = added;
    }
  }
  std::map<uint8_t, std::vector<Cuboid>> found;
  for (size_t i = 0; i < forest.runs().size(); ++i) {
    const Run& run = forest.runs()[i];
    if (run.parent == i) found[run.label].push_back(run.cuboid);
  }
  std::vector<Blobs> blobs;
  for (auto& [label, cuboids] : found) {
    std::stable_sort(cuboids.begin(), cuboids.end(),
                     [](const Cuboid& a, const Cuboid& b) { return VolumeOf(a) > VolumeOf(b); });
    cuboids.resize(std::min(cuboids.size(), most));
    blobs.push_back({label, std::move(cuboids)});
  }
  return blobs;
}

}  // namespace hpu::data_loader
