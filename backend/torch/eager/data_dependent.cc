// Operators whose result has a size, or is a Python value, that depends on the elements of a
// tensor. No program can have such a result. They are composed here of operators on hpu that
// programs have, and they wait for the device once, for the size. nonzero_static, whose size is
// given, is composed of the same parts and does not wait.
#include <ATen/ATen.h>

#include "backend/torch/device/allocator.h"
#include "backend/torch/eager/own_kernel.h"
#include "backend/torch/eager/tensor_arguments.h"

namespace hpu::torch_backend {
namespace {

using at::Tensor;

// Returns the places of a flat mask, those of the true elements first, and for each place a key,
// which is 0 if its element is true.
std::tuple<Tensor, Tensor> TrueFirst(const Tensor& mask) {
  // The sort is stable, so equal elements keep their order.
  auto [keys, places] = mask.logical_not().to(at::kInt).sort(/*stable=*/true, 0, false);
  return {places, keys};
}

// Returns the places of the true elements of a flat mask, ascending.
Tensor PlacesOf(const Tensor& mask) {
  const auto count = mask.sum().item<int64_t>();
  return std::get<0>(TrueFirst(mask)).slice(0, 0, count);
}

// Returns a row of coordinates in `self` for each place in the flat tensor.
Tensor CoordinatesOf(Tensor place, const Tensor& self) {
  if (self.dim() == 0) return at::empty({place.numel(), 0}, place.options());
  std::vector<Tensor> coordinates(static_cast<size_t>(self.dim()));
  for (int64_t dim = self.dim(); dim-- > 0;) {
    coordinates[static_cast<size_t>(dim)] = place.remainder(std::max<int64_t>(self.size(dim), 1));
    place = place.floor_divide(std::max<int64_t>(self.size(dim), 1));
  }
  // On the CPU, too, the coordinates of a dimension lie side by side in memory.
  return at::stack(coordinates).t();
}

Tensor Nonzero(const Tensor& self) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return CoordinatesOf(PlacesOf(self.reshape({-1}).ne(0)), self);
}

Tensor NonzeroStatic(const Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Tensor result = at::full({size, self.dim()}, fill_value, self.options().dtype(at::kLong));
  if (result.numel() == 0 || self.numel() == 0) return result;
  const auto [places, keys] = TrueFirst(self.reshape({-1}).ne(0));
  const int64_t rows = std::min(size, self.numel());
  const Tensor is_true = keys.slice(0, 0, rows).eq(0).unsqueeze(1);
  Tensor first = result.slice(0, 0, rows);
  first.copy_(at::where(is_true, CoordinatesOf(places.slice(0, 0, rows), self), first));
  return result;
}

Tensor MaskedSelect(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const std::vector<Tensor> same = at::broadcast_tensors({self, mask});
  return same[0].reshape({-1}).index_select(0, PlacesOf(same[1].reshape({-1})));
}

using Indices = c10::List<std::optional<Tensor>>;

bool IsMask(const Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

bool HasMask(const c10::IValue& indices) {
  bool found = false;
  ForEachTensor(indices, [&](const Tensor& index) { found |= IsMask(index); });
  return found;
}

// Throws PyTorch's IndexError unless the mask has the sizes of the dimensions of `self` from
// `first` on.
void CheckMask(const Tensor& self, const Tensor& mask, int64_t first) {
  for (int64_t dim = 0; dim < mask.dim() && first + dim < self.dim(); ++dim) {
    TORCH_CHECK_INDEX(mask.size(dim) == self.size(first + dim), "The shape of the mask ",
                      mask.sizes(), " at index ", dim,
                      " does not match the shape of the indexed tensor ", self.sizes(),
                      " at index ", first + dim);
  }
}

// Replaces each mask by the coordinates of its true elements.
Indices WithoutMasks(const Tensor& self, const Indices& indices) {
  Indices plain;
  for (const std::optional<Tensor>& index : indices) {
    if (!index.has_value() || !index->defined() || !IsMask(*index)) {
      plain.push_back(index);
      continue;
    }
    CheckMask(self, *index, static_cast<int64_t>(plain.size()));
    for (const Tensor& coordinate : index->to(kHpuDevice).nonzero().unbind(1)) {
      plain.push_back(coordinate);
    }
  }
  return plain;
}

Tensor IndexByMask(const Tensor& self, const Indices& indices) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::index(self, WithoutMasks(self, indices));
}

Tensor& PutByMask(Tensor& self, const Indices& indices, const Tensor& values, bool accumulate,
                  bool unsafe) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::_index_put_impl_(self, WithoutMasks(self, indices), values, accumulate, unsafe);
}

// A program can put one value by a mask.
bool PutsSeveral(c10::ArrayRef<c10::IValue> arguments) {
  return arguments[2].toTensor().numel() != 1 && HasMask(arguments[1]);
}
bool TakesByMask(c10::ArrayRef<c10::IValue> arguments) { return HasMask(arguments[1]); }

bool Equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ",
              self.dtype(), " but got data type ", other.dtype(),
              " for argument 'other' in call to equal");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || !self.ne(other).any().item<bool>();
}

Tensor& MaskedSelectOut(const Tensor& self, const Tensor& mask, Tensor& out) {
  return Into(out, MaskedSelect(self, mask));
}

// bincount(x, weights, minlength): adds the weights of equal elements.
Tensor Bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t minlength) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const bool weighted = weights.has_value() && weights->defined();
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(at::isIntegralType(self.scalar_type(), /*includeBool=*/false) && self.dim() == 1,
              "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->numel() == self.numel()),
              "weights should be 1-d and have the same length as input");
  at::ScalarType dtype = at::kLong;
  if (weighted) dtype = weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  const auto options = self.options().dtype(dtype);
  if (self.numel() == 0) return at::zeros({minlength}, options);
  const auto [smallest, largest] = at::aminmax(self.to(at::kLong));
  const Tensor ends = at::stack({smallest, largest}).to(at::kCPU);
  TORCH_CHECK(ends[0].item<int64_t>() >= 0,
              "bincount only supports 1-d non-negative integral inputs.");
  const Tensor each = weighted ? weights->to(dtype) : at::ones({self.numel()}, options);
  const int64_t bins = std::max(minlength, ends[1].item<int64_t>() + 1);
  return at::zeros({bins}, options).scatter_add_(0, self.to(at::kLong), each);
}

Tensor RepeatInterleave(const Tensor& repeats, std::optional<int64_t> /*output_size*/) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return at::empty_like(repeats);
  const Tensor all = at::stack({repeats.min().to(at::kLong), repeats.sum()}).to(at::kCPU);
  TORCH_CHECK(all[0].item<int64_t>() >= 0, "repeats can not be negative");
  return at::repeat_interleave(repeats, std::optional<int64_t>(all[1].item<int64_t>()));
}
// A call whose size is given is work for a program.
bool CountsItself(c10::ArrayRef<c10::IValue> arguments) { return arguments[1].isNone(); }

// The beginnings of runs of equal elements in a flat tensor of at least one element.
struct Runs {
  Tensor begins;  // a mask
  Tensor places;
};
Runs RunsOf(const Tensor& flat) {
  const int64_t size = flat.numel();
  const Tensor begins = at::cat({at::ones({1}, flat.options().dtype(at::kBool)),
                                 flat.slice(0, 1, size).ne(flat.slice(0, 0, size - 1))});
  return {begins, PlacesOf(begins)};
}

// Returns for each element the number of its run, and the lengths of the runs.
Tensor RunNumbers(const Runs& runs) { return runs.begins.cumsum(0).sub(1); }
Tensor RunLengths(const Runs& runs) {
  const Tensor end = at::full({1}, runs.begins.numel(), runs.places.options());
  return at::cat({runs.places.slice(0, 1), end}).sub(runs.places);
}

using Unique = std::tuple<Tensor, Tensor, Tensor>;

Unique NoneOf(const Tensor& self, bool return_inverse) {
  const auto options = self.options().dtype(at::kLong);
  return {at::empty({0}, self.options()),
          at::empty(return_inverse ? self.sizes() : at::IntArrayRef{0}, options),
          at::empty({0}, options)};
}

Unique Unique2(const Tensor& self, bool /*sorted*/, bool return_inverse, bool return_counts) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (self.numel() == 0) return NoneOf(self, return_inverse);
  const auto [values, order] = self.reshape({-1}).sort(/*stable=*/true, 0, false);
  const Runs runs = RunsOf(values);
  Tensor inverse = at::empty({0}, order.options());
  if (return_inverse) {
    inverse = at::empty_like(order).scatter_(0, order, RunNumbers(runs)).view(self.sizes());
  }
  return {values.index_select(0, runs.places), inverse,
          return_counts ? RunLengths(runs) : at::empty({0}, order.options())};
}

Unique UniqueConsecutive(const Tensor& self, bool return_inverse, bool return_counts,
                         std::optional<int64_t> dim) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  TORCH_CHECK_NOT_IMPLEMENTED(!dim.has_value() || self.dim() == 1,
                              "unique_consecutive along a dimension has no hpu kernel");
  if (self.numel() == 0) return NoneOf(self, return_inverse);
  const Tensor flat = self.reshape({-1});
  const Runs runs = RunsOf(flat);
  const auto none = at::empty({0}, runs.places.options());
  return {flat.index_select(0, runs.places),
          return_inverse ? RunNumbers(runs).view(self.sizes()) : none,
          return_counts ? RunLengths(runs) : none};
}

}  // namespace

std::vector<OwnKernel> DataDependentKernels() {
  return {Composed("aten::nonzero", &Nonzero),
          Composed("aten::nonzero_static", &NonzeroStatic),
          Composed("aten::masked_select", &MaskedSelect),
          Composed("aten::masked_select.out", &MaskedSelectOut),
          Composed("aten::repeat_interleave.Tensor", &RepeatInterleave, &CountsItself),
          Composed("aten::index.Tensor", &IndexByMask, &TakesByMask),
          Composed("aten::_index_put_impl_", &PutByMask, &PutsSeveral),
          Composed("aten::bincount", &Bincount),
          Composed("aten::equal", &Equal),
          Composed("aten::_unique2", &Unique2),
          Composed("aten::unique_consecutive", &UniqueConsecutive)};
}

}  // namespace hpu::torch_backend
