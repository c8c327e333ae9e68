// Compares panels of B, element by element, for every form, layout and ISA level.
#include "graph_compiler/contraction/tiles/packing.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {
namespace {

struct Layout {
  std::string name;
  int64_t n = 0, k = 0;  // k is the size of the innermost dimension of k
  int64_t row_stride = 0, col_stride = 0;
  std::vector<int64_t> outer_sizes = {}, outer_strides = {};
  int64_t batch = 1, batch_stride = 0;
  int64_t first = 0;  // place of element (0, 0)

  int64_t total_k() const {
    int64_t total = k;
    for (const int64_t size : outer_sizes) total *= size;
    return total;
  }
  // Returns the place of element (k, n) of matrix b in the source.
  int64_t Source(int64_t b, int64_t row, int64_t col) const {
    int64_t offset = first + b * batch_stride + col * col_stride + row % k * row_stride;
    int64_t outer = row / k;
    for (size_t i = outer_sizes.size(); i-- > 0; outer /= outer_sizes[i]) {
      offset += outer % outer_sizes[i] * outer_strides[i];
    }
    return offset;
  }
};

Layout Linear(int64_t n, int64_t k) { return {"[n,k]", n, k, 1, k}; }
Layout Plain(int64_t n, int64_t k) { return {"[k,n]", n, k, n, 1}; }
// Returns (ko, c, kh, kw) with taps outside of channels.
Layout Conv(int64_t n, int64_t c, int64_t taps) {
  return {"conv", n, c, taps * taps, c * taps * taps, {taps, taps}, {taps, 1}};
}
// Returns the weight in the gradient of a convolution by its image: channels change places, and
// taps are reversed.
Layout ConvFlipped(int64_t n, int64_t c, int64_t taps) {
  Layout flipped{"conv flipped", n, c, n * taps * taps, taps * taps, {taps, taps}, {-taps, -1}};
  flipped.first = taps * taps - 1;
  return flipped;
}
Layout ConvChannelsLast(int64_t n, int64_t c, int64_t taps) {
  return {"conv channels last", n, c, 1, c * taps * taps, {taps, taps}, {taps * c, c}};
}

std::vector<Layout> Layouts() {
  Layout batched = Linear(48, 40);
  batched.batch = 3;
  batched.batch_stride = 48 * 40;
  Layout sliced = Linear(64, 32);
  sliced.name = "rows apart";
  sliced.col_stride = 33;
  Layout scattered = Linear(64, 32);
  scattered.name = "scattered";
  scattered.row_stride = 2;
  scattered.col_stride = 65;
  return {Linear(64, 64),
          Linear(64, 34),
          Linear(50, 34),
          Linear(7, 2),
          Plain(64, 64),
          Plain(64, 6),
          Plain(50, 34),
          Plain(7, 2),
          batched,
          sliced,
          scattered,
          Conv(64, 6, 3),
          Conv(33, 8, 3),
          Conv(64, 16, 1),
          ConvChannelsLast(64, 6, 3),
          Conv(64, 2, 1),
          Conv(64, 3, 7),
          Conv(20, 1, 3),
          Conv(64, 4, 5),
          ConvFlipped(64, 6, 3),
          ConvFlipped(41, 3, 5),
          ConvChannelsLast(40, 5, 2)};
}

class Packer {
 public:
  Packer(IsaLevel isa, MemoryType type, const Layout& layout, PanelFormat format) {
    KernelModule module(TargetInfoFor(isa));
    KernelCache cache(module);
    MatrixAccess b;
    b.buffer = Persistent(0);
    b.type = type;
    b.row_stride = layout.row_stride;
    b.col_stride = layout.col_stride;
    b.batch_strides = {layout.batch_stride};
    format.outer_k_sizes = layout.outer_sizes;
    format.outer_k_strides = layout.outer_strides;
    packed_ = EmitPanelPacking(cache, {layout.batch}, b, layout.k, layout.n, format);
    const auto image = module.Finish(SizesAs::kSymbols);
    HPU_CHECK(image.ok(), "finish");
    entry_ = image->entry_offsets[0];
    image_ = std::make_unique<MappedImage>(image->code);
  }
  const PackedOperand& packed() const { return packed_; }
  void Run(void* source, void* destination, int64_t begin, int64_t end) const {
    image_->Run(entry_, {source, destination}, begin, end);
  }

 private:
  PackedOperand packed_;
  uint32_t entry_ = 0;
  std::unique_ptr<MappedImage> image_;
};

// Returns where element (k, col) of a panel lies, in elements of the panel.
int64_t PlaceInPanel(PanelType type, int64_t cols, int64_t lanes, int64_t k, int64_t col) {
  switch (type) {
    case PanelType::kF32:
      return k * cols + col;
    case PanelType::kBF16Vectors:
      return k * cols + col / (2 * lanes) * 2 * lanes + col % lanes * 2 + col / lanes % 2;
    case PanelType::kBF16Pairs:
      return k / 2 * 2 * cols + col * 2 + k % 2;
  }
  return 0;
}

template <typename T>
void CheckPanels(IsaLevel isa, MemoryType type, const Layout& layout, PanelFormat format) {
  const int64_t lanes = TargetInfoFor(isa).f32_lanes;
  const Packer packer(isa, type, layout, format);
  // If the fastest k is odd, its last element gets a zero as its partner.
  const bool fills_up = format.packed_type == PanelType::kBF16Pairs && layout.k % 2 != 0;
  const int64_t filled_k = std::max(fills_up ? layout.k + 1 : layout.k, format.filled_k);
  const int64_t k = layout.total_k() / layout.k * filled_k, cols = format.panel_cols;
  const int64_t panels = (layout.n + cols - 1) / cols;
  std::vector<T> source(packer.packed().source_bytes / sizeof(T));
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<T>(i + 1);
  const auto bytes = static_cast<size_t>(layout.batch * panels * k * cols) * sizeof(T);
  ASSERT_EQ(packer.packed().packed_bytes, bytes);
  auto* panel = static_cast<T*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
  std::memset(panel, 0xff, bytes + 64);
  packer.Run(source.data(), panel, 0, static_cast<int64_t>(packer.packed().kernel.tasks));
  std::vector<T> expected(bytes / sizeof(T), 0);
  for (int64_t b = 0; b < layout.batch; ++b) {
    for (int64_t row = 0; row < layout.total_k(); ++row) {
      const int64_t place_k = row / layout.k * filled_k + row % layout.k;
      for (int64_t col = 0; col < layout.n; ++col) {
        const int64_t first = (b * panels + col / cols) * k * cols;
        const int64_t place = PlaceInPanel(format.packed_type, cols, lanes, place_k, col % cols);
        expected[static_cast<size_t>(first + place)] =
            source[static_cast<size_t>(layout.Source(b, row, col))];
      }
    }
  }
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), panel));
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(reinterpret_cast<uint8_t*>(panel)[bytes + i], 0xff);
  std::free(panel);
}

TEST(PackingTest, PanelsHoldEveryElementInItsPlace) {
  for (const IsaLevel isa : TestedLevels()) {
    const int64_t lanes = TargetInfoFor(isa).f32_lanes;
    for (const Layout& layout : Layouts()) {
      for (const int64_t vectors : {1, 2, 4}) {
        SCOPED_TRACE(LevelName(isa) + " " + layout.name + " " + std::to_string(layout.n) + "x" +
                     std::to_string(layout.total_k()) + " vectors " + std::to_string(vectors));
        const int64_t cols = vectors * lanes;
        CheckPanels<uint32_t>(isa, MemoryType::kF32, layout, {cols, PanelType::kF32});
        CheckPanels<uint16_t>(isa, MemoryType::kBF16, layout, {cols, PanelType::kBF16Pairs});
        if (vectors % 2 != 0) continue;
        CheckPanels<uint16_t>(isa, MemoryType::kBF16, layout, {cols, PanelType::kBF16Vectors});
      }
    }
  }
}

TEST(PackingTest, PairsAreFilledUpWithZeros) {
  for (const IsaLevel isa : TestedLevels()) {
    const int64_t cols = 2 * TargetInfoFor(isa).f32_lanes;
    for (const Layout& layout :
         {Linear(64, 197), Linear(50, 66), Linear(5, 31), Linear(33, 64), Plain(64, 197),
          Plain(50, 66), Plain(5, 31), Plain(33, 64), Conv(40, 5, 3), ConvFlipped(64, 6, 2)}) {
      for (const int64_t zeros : {0, 1, 7, 30, 100}) {
        SCOPED_TRACE(LevelName(isa) + " " + layout.name + " " + std::to_string(layout.n) + "x" +
                     std::to_string(layout.k) + " and " + std::to_string(zeros));
        PanelFormat format{cols, PanelType::kBF16Pairs};
        format.filled_k = (layout.k + zeros + 1) / 2 * 2;
        CheckPanels<uint16_t>(isa, MemoryType::kBF16, layout, format);
      }
    }
  }
}

TEST(PackingTest, NarrowElementsAreWidened) {
  for (const IsaLevel isa : TestedLevels()) {
    const Layout layout = Linear(64, 34);
    const Packer packer(isa, MemoryType::kBF16, layout, {64, PanelType::kF32});
    TestBuffer source(MemoryType::kBF16, 64 * 34);
    source.FillRandom(1);
    auto* panel = static_cast<float*>(std::aligned_alloc(64, 64 * 34 * 4));
    packer.Run(source.data(), panel, 0, 1);
    for (int64_t k = 0; k < 34; ++k) {
      for (int64_t col = 0; col < 64; ++col) {
        ASSERT_EQ(panel[k * 64 + col], source.Get(col * 34 + k)) << LevelName(isa);
      }
    }
    std::free(panel);
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
