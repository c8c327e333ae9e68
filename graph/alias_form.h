// The way in which a tensor that a graph returns came out of an input's memory, as autograd and the
// caller see it. It appears in the captured graph, in the compile server's IR and in the program.
#pragma once

#include <cstdint>

namespace hpu {

enum class AliasForm : uint8_t {
  kNone = 0,  // it lies in memory of its own, or is not a tensor
  kSame = 1,  // it is the input itself, the same object
  kView = 2,  // a view of the input, made in the caller's grad mode
  // A view that was made while gradients were on, whatever the caller's grad mode.
  kViewWithGradient = 3,
  kViewWithoutGradient = 4,  // a view that was made while gradients were off
  kDetached = 5,             // Tensor.detach(): it is no view, and no gradient leads through it
};
inline constexpr AliasForm kLastAliasForm = AliasForm::kDetached;

// Returns "same", "view_with_gradient", ..., and "" for kNone.
constexpr const char* AliasFormName(AliasForm form) {
  switch (form) {
    case AliasForm::kNone:
      return "";
    case AliasForm::kSame:
      return "same";
    case AliasForm::kView:
      return "view";
    case AliasForm::kViewWithGradient:
      return "view_with_gradient";
    case AliasForm::kViewWithoutGradient:
      return "view_without_gradient";
    case AliasForm::kDetached:
      return "detached";
  }
  return "unknown";
}

}  // namespace hpu
