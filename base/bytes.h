// Flat little-endian encoding for our own containers (program, recipe). The writer never fails. The
// reader refuses to read past the end and to allocate more than the remaining bytes could describe,
// so that hostile bytes give DATA_LOSS and nothing else.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"

namespace hpu {

using Bytes = std::vector<uint8_t>;

class ByteWriter {
 public:
  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void Put(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void PutString(std::string_view text) {
    Put<uint32_t>(static_cast<uint32_t>(text.size()));
    PutRaw(text.data(), text.size());
  }
  void PutBytes(std::span<const uint8_t> data) {
    Put<uint64_t>(data.size());
    PutRaw(data.data(), data.size());
  }
  template <typename T>
  void PutVector(const std::vector<T>& values) {
    Put<uint32_t>(static_cast<uint32_t>(values.size()));
    PutRaw(values.data(), values.size() * sizeof(T));
  }
  void PutRaw(const void* data, size_t size) {
    const auto* p = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), p, p + size);
  }
  // Zero-pads to a multiple of `alignment` bytes.
  void Align(size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(0);
  }
  size_t size() const { return bytes_.size(); }
  const Bytes& bytes() const { return bytes_; }
  Bytes Take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> data) : data_(data) {}

  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  absl::Status Get(T* value) {
    if (remaining() < sizeof(T)) return Truncated(sizeof(T));
    std::memcpy(value, data_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return absl::OkStatus();
  }
  absl::Status GetString(std::string* text) {
    uint32_t size = 0;
    RETURN_IF_ERROR(Get(&size));
    if (remaining() < size) return Truncated(size);
    text->assign(reinterpret_cast<const char*>(data_.data() + at_), size);
    at_ += size;
    return absl::OkStatus();
  }
  // The span points into the reader's data.
  absl::Status GetBytes(std::span<const uint8_t>* data) {
    uint64_t size = 0;
    RETURN_IF_ERROR(Get(&size));
    if (remaining() < size) return Truncated(size);
    *data = data_.subspan(at_, size);
    at_ += size;
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status GetVector(std::vector<T>* values) {
    uint32_t count = 0;
    RETURN_IF_ERROR(GetCount(&count, sizeof(T)));
    values->resize(count);
    if (count > 0) std::memcpy(values->data(), data_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return absl::OkStatus();
  }
  // Reads an element count and checks that `count * min_element_bytes` bytes could still follow.
  absl::Status GetCount(uint32_t* count, size_t min_element_bytes) {
    RETURN_IF_ERROR(Get(count));
    if (*count > remaining() / (min_element_bytes == 0 ? 1 : min_element_bytes)) {
      return Truncated(uint64_t{*count} * min_element_bytes);
    }
    return absl::OkStatus();
  }
  absl::Status Align(size_t alignment) {
    while (at_ % alignment != 0) {
      uint8_t pad = 0;
      RETURN_IF_ERROR(Get(&pad));
      if (pad != 0) return DataLoss("padding byte at ", at_ - 1, " is not zero");
    }
    return absl::OkStatus();
  }
  size_t position() const { return at_; }
  size_t remaining() const { return data_.size() - at_; }

 private:
  absl::Status Truncated(uint64_t wanted) const {
    return DataLoss("truncated: ", wanted, " bytes wanted at ", at_, ", ", remaining(), " left");
  }
  std::span<const uint8_t> data_;
  size_t at_ = 0;
};

}  // namespace hpu
