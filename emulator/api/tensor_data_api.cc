// Host data and quantisation of tensors (reference 1.8, 4.5). Quantisation is kept and returned;
// the emulated device computes in the declared types and does not quantise by itself.
#include <cstring>

#include "emulator/api/lookup.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT

namespace {

synStatus WrongSize(const char* what, uint64_t size) {
  return Fail(synFail, "quantisation: ", what, " cannot have ", size, " bytes");
}

bool IsKnownType(synDataType type) {
  return type != syn_type_na && type < syn_type_max && (type & (type - 1)) == 0;
}

synStatus SetChannelRanges(Quantization& quantization, const void* value) {
  const auto& given = *static_cast<const synPerChannelDynamicRange*>(value);
  SYN_REQUIRE_ARGUMENT(given.numChannels == 0 || given.ranges != nullptr);
  for (uint32_t i = 0; i < given.numChannels; ++i) {
    SYN_REQUIRE_ARGUMENT(given.ranges[i].min <= given.ranges[i].max);
  }
  quantization.channel_ranges.assign(given.ranges, given.ranges + given.numChannels);
  return synSuccess;
}

synStatus SetQuantization(Quantization& quantization, synQuantizationProperty property,
                          const void* value, uint64_t size) {
  SYN_REQUIRE_ARGUMENT(value != nullptr);
  const auto* bytes = static_cast<const uint8_t*>(value);
  switch (property) {
    case SYN_QUANT_DYNAMIC_RANGE: {
      if (size != sizeof(synQuantDynamicRange)) return WrongSize("a dynamic range", size);
      const auto& range = *static_cast<const synQuantDynamicRange*>(value);
      SYN_REQUIRE_ARGUMENT(range.min <= range.max);
      quantization.plain[property].assign(bytes, bytes + size);
      return synSuccess;
    }
    case SYN_QUANT_FLAGS:
      if (size != sizeof(synQuantFlags)) return WrongSize("flags", size);
      quantization.plain[property].assign(bytes, bytes + size);
      return synSuccess;
    case SYN_QUANT_METADATA: {
      if (size != sizeof(synQuantMetadata)) return WrongSize("metadata", size);
      const auto& given = *static_cast<const synQuantMetadata*>(value);
      SYN_REQUIRE_ARGUMENT(IsKnownType(given.dataType));
      SYN_REQUIRE_ARGUMENT(given.numZPScales == 0 || given.zpScales != nullptr);
      quantization.zp_scales_type = given.dataType;
      quantization.zp_scales.assign(given.zpScales, given.zpScales + given.numZPScales);
      return synSuccess;
    }
    case SYN_FP_QUANT_METADATA: {
      if (size != sizeof(synFpQuantMetadata)) return WrongSize("fp metadata", size);
      const auto& given = *static_cast<const synFpQuantMetadata*>(value);
      SYN_REQUIRE_ARGUMENT(IsKnownType(given.dataType));
      SYN_REQUIRE_ARGUMENT(given.numFpQuantParams == 0 || given.fpQuantParams != nullptr);
      quantization.fp_params_type = given.dataType;
      quantization.fp_params.assign(given.fpQuantParams,
                                    given.fpQuantParams + given.numFpQuantParams);
      return synSuccess;
    }
    case SYN_QUANT_PC_DYNAMIC_RANGE:
      if (size != sizeof(synPerChannelDynamicRange)) return WrongSize("channel ranges", size);
      return SetChannelRanges(quantization, value);
  }
  return Fail(synInvalidArgument, "no quantisation property has the number ", property);
}

// For properties that are arrays, a null array asks for the count; any other array must have that
// many entries.
template <typename Entry>
synStatus CopyEntries(const std::vector<Entry>& entries, Entry* out, uint32_t* count) {
  if (entries.empty()) return Fail(synObjectNotInitialized, "this quantisation was never set");
  if (out != nullptr) {
    if (*count < entries.size()) {
      return Fail(synInvalidArgument, "room for ", *count, " entries, ", entries.size(),
                  " are there");
    }
    std::copy(entries.begin(), entries.end(), out);
  }
  *count = static_cast<uint32_t>(entries.size());
  return synSuccess;
}

synStatus GetQuantization(const Quantization& quantization, synQuantizationProperty property,
                          void* value, uint64_t size) {
  SYN_REQUIRE_ARGUMENT(value != nullptr);
  switch (property) {
    case SYN_QUANT_DYNAMIC_RANGE:
    case SYN_QUANT_FLAGS: {
      const auto found = quantization.plain.find(property);
      if (found == quantization.plain.end()) {
        return Fail(synObjectNotInitialized, "this quantisation was never set");
      }
      if (size != found->second.size()) return WrongSize("this property", size);
      std::memcpy(value, found->second.data(), size);
      return synSuccess;
    }
    case SYN_QUANT_METADATA: {
      if (size != sizeof(synQuantMetadata)) return WrongSize("metadata", size);
      auto& out = *static_cast<synQuantMetadata*>(value);
      out.dataType = quantization.zp_scales_type;
      return CopyEntries(quantization.zp_scales, out.zpScales, &out.numZPScales);
    }
    case SYN_FP_QUANT_METADATA: {
      if (size != sizeof(synFpQuantMetadata)) return WrongSize("fp metadata", size);
      auto& out = *static_cast<synFpQuantMetadata*>(value);
      out.dataType = quantization.fp_params_type;
      return CopyEntries(quantization.fp_params, out.fpQuantParams, &out.numFpQuantParams);
    }
    case SYN_QUANT_PC_DYNAMIC_RANGE: {
      if (size != sizeof(synPerChannelDynamicRange)) return WrongSize("channel ranges", size);
      auto& out = *static_cast<synPerChannelDynamicRange*>(value);
      return CopyEntries(quantization.channel_ranges, out.ranges, &out.numChannels);
    }
  }
  return Fail(synInvalidArgument, "no quantisation property has the number ", property);
}

}  // namespace

synStatus synTensorSetHostPtr(synTensor handle, void* data, uint64_t size, synDataType type,
                              bool /*copy*/) {
  return TensorSetCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(data != nullptr || size == 0);
    SYN_REQUIRE_ARGUMENT(IsKnownType(type));
    const auto* bytes = static_cast<const uint8_t*>(data);
    tensor.host_data.emplace(bytes, bytes + size);
    tensor.host_type = type;
    return synSuccess;
  });
}

synStatus synTensorGetHostPtr(synTensor handle, void** data, uint64_t* size, synDataType* type) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(data != nullptr && size != nullptr && type != nullptr);
    if (!tensor.host_data.has_value()) {
      return Fail(synObjectNotInitialized, "tensor ", tensor.name, " has no host data");
    }
    *data = tensor.host_data->data();
    *size = tensor.host_data->size();
    *type = tensor.host_type;
    return synSuccess;
  });
}

synStatus synTensorSetQuantizationData(synTensor handle, synQuantizationProperty property,
                                       void* value, uint64_t size) {
  return TensorSetCall(handle, [&](Tensor& tensor) {
    return SetQuantization(tensor.quantization, property, value, size);
  });
}

synStatus synTensorGetQuantizationData(synTensor handle, synQuantizationProperty property,
                                       void* value, uint64_t size) {
  return TensorCall(handle, [&](Tensor& tensor) {
    return GetQuantization(tensor.quantization, property, value, size);
  });
}
