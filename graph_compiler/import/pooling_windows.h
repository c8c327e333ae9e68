// Windows of pooling over images of the shape (n, c, h, w), whose order in memory may be any.
#pragma once

#include <functional>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"

namespace hpu::graph_compiler {

// One spatial dimension of a pooling window.
struct PoolWindow {
  int64_t in = 0, out = 0, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  // Returns whether some window reaches outside the image.
  bool Leaves() const {
    return pad_begin > 0 || (out - 1) * stride - pad_begin + (kernel - 1) * dilation >= in;
  }
};

struct Pool {
  PoolWindow h, w;
  int32_t convention = 0;
};

// Reads the node's parameters; the sizes of images and results are left out.
absl::StatusOr<Pool> ReadPool(const NodeDesc& node);
// Returns the pool whose image is input 0 and whose windows are output 0.
absl::StatusOr<Pool> PoolOf(Importer& im);

// Returns the sizes of the windows over input i.
absl::StatusOr<Sizes> PooledSizes(const ShapeContext& context, size_t i);
absl::StatusOr<std::vector<Sizes>> InferPool(const ShapeContext& context);

// Returns whether a position along a dimension of that size lies in it.
E Within(E at, int64_t size);

// The rank of the domain of a window reduction: (n, c, ho, wo, kh, kw).
inline constexpr size_t kWindowRank = 6;

class WindowBody {
 public:
  WindowBody(BodyBuilder& body, const View& x, const PoolWindow& h, const PoolWindow& w)
      : body_(body), x_(x), h_(h), w_(w) {}

  E Row();
  E Column();
  // Returns the window's element, or `outside` beyond the image.
  E Element(double outside);
  bool Leaves() const { return h_.Leaves() || w_.Leaves(); }
  // Returns whether the window's element lies in the image.
  E Inside();

 private:
  BodyBuilder& body_;
  const View& x_;
  const PoolWindow& h_;
  const PoolWindow& w_;
};

using WindowFunction = std::function<E(WindowBody&, BodyBuilder&)>;

// Computes out (n, c, ho, wo) = fold of function over (kh, kw).
void ReduceWindows(Importer& im, const View& x, const View& out, ReduceKind kind,
                   const PoolWindow& h, const PoolWindow& w, const WindowFunction& function);

}  // namespace hpu::graph_compiler
